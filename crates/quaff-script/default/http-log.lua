-- HTTP log: a row for each response with its request, and for each request that had none.
local rows = list("http", {
    "time", "client", "server", "port", "method", "host", "target", "status", "type", "request_bytes", "response_bytes",
    "whole", "user_agent", "referer",
})
local WAITING = 64 -- requests of a connection

local function add(flow, request, response)
    rows:add {
        flow.last, flow.client, flow.server, flow.server_port, request.method, request.host, request.target,
        response and response.status, response and response.headers["content-type"], request.body_bytes,
        response and response.body_bytes, request.whole ~= false and response ~= nil and response.whole,
        request.user_agent, request.referer,
    }
end

on("http_request", {}, function(flow, request)
    local waiting = flow.state
    if #waiting >= WAITING then add(flow, table.remove(waiting, 1)) end
    waiting[#waiting + 1] = {
        number = request.number, method = request.method, host = request.host, target = request.target,
        body_bytes = request.body_bytes, whole = request.whole, user_agent = request.headers["user-agent"],
        referer = request.headers["referer"],
    }
end)

on("http_response", {}, function(flow, response)
    if response.status < 200 and response.status ~= 101 then return end
    local waiting, request = flow.state, nil
    local number = response.request and response.request.number or 0
    while waiting[1] and waiting[1].number <= number do
        if request then add(flow, request) end -- its response is missing
        request = table.remove(waiting, 1)
    end
    add(flow, request or {}, response)
end)

on("flow_end", {}, function(flow)
    for _, request in ipairs(flow.state) do add(flow, request) end
end)
