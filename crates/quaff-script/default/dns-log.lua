-- DNS log: a row for each question, with the answer and the time that it took; without one after the flow has ended.
local rows = list("dns", { "time", "client", "server", "id", "name", "type", "code", "answers", "ms" })
local WAITING = 50000 -- questions without an answer
local ANSWERS = 50

local count = 0 -- of those that wait, in the states of their flows, by id

local function add(flow, query, code, answers, ms)
    rows:add { query.time, flow.client, flow.server, query.id, query.name, query.type, code, answers, ms }
end

local function asked(flow, message)
    local question = message.questions[1]
    return { time = flow.last, id = message.id, name = question.name, type = question.type }
end

on("dns", {}, function(flow, message)
    if not message.questions[1] then return end
    local queries = flow.state
    local query = queries[message.id]
    if not message.response then
        if count < WAITING and not query then
            queries[message.id], count = asked(flow, message), count + 1
        end
        return
    end
    if query then queries[message.id], count = nil, count - 1 end
    local answers = {}
    for at, answer in ipairs(message.answers) do
        if at > ANSWERS then break end
        answers[at] = answer.data
    end
    add(flow, query or asked(flow, message), message.code, answers, query and (flow.last - query.time) / 1000000)
end)

on("flow_end", {}, function(flow)
    for _, query in pairs(flow.state) do
        add(flow, query)
        count = count - 1
    end
end)
