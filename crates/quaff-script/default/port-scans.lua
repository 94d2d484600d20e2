-- Port scans: a client that tries many ports of one host, or one port of many hosts, within a minute.
local PORTS = argument("ports", 20) -- of one host
local HOSTS = argument("hosts", 50) -- with one port
local ENTRIES = 50000 -- remembered in a minute; then all are forgotten

local tried, entries = {}, 0

-- Returns true when `key` has its item number `most`.
local function reaches(key, item, most)
    local of = tried[key]
    if not of then
        of = { count = 0, items = {} }
        tried[key] = of
    end
    if of.items[item] then return false end
    of.items[item], of.count, entries = true, of.count + 1, entries + 1
    return of.count == most
end

on("flow_start", {}, function(flow)
    if entries > ENTRIES then tried, entries = {}, 0 end
    local who, what = flow.client .. " " .. flow.protocol, flow.server_port
    if reaches(who .. " " .. flow.server, what, PORTS) then
        alert("port scan", { client = flow.client, server = flow.server, protocol = flow.protocol, ports = PORTS })
    end
    if reaches(who .. " port " .. what, flow.server, HOSTS) then
        alert("host scan", { client = flow.client, port = what, protocol = flow.protocol, hosts = HOSTS })
    end
end)

on("timer", { every = "1m" }, function() tried, entries = {}, 0 end)
