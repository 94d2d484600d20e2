-- Large transfers: flows of at least BYTES on the wire, when they end.
local BYTES = argument("bytes", 100000000)
local rows = list("transfers", {
    "start", "end", "client", "server", "port", "protocol", "packets", "bytes", "mbit_per_s",
})

on("flow_end", {}, function(flow)
    if flow.bytes < BYTES then return end
    local seconds = (flow.last - flow.start) / 1e9
    rows:add {
        flow.start, flow.last, flow.client, flow.server, flow.server_port, flow.protocol, flow.packets, flow.bytes,
        seconds > 0 and flow.bytes * 8 / seconds / 1e6 or nil,
    }
end)
