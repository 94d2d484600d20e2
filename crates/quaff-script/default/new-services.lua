-- New services: a TCP port that accepts a connection for the first time. Those that answer within the first LEARN
-- seconds are taken as known, and so are those in KNOWN, such as "10.0.0.2:80,10.0.0.3:443".
local LEARN = argument("learn", 0)
local KNOWN = argument("known", "")
local SERVICES = 200000 -- remembered

local SYN_ACK = "tcp[tcpflags] & 0x12 == 0x12 or (ip6 and ip6[6] == 6 and ip6[53] & 0x12 == 0x12)"

local services = list("services", { "time", "server", "port", "client", "server_mac" })
local known, count, began = {}, 0, nil

for service in KNOWN:gmatch("[^,%s]+") do known[service] = true end

on("packet", { filter = SYN_ACK }, function(packet)
    began = began or packet.time
    local service = packet.source .. ":" .. packet.source_port
    if known[service] or count >= SERVICES then return end
    known[service], count = true, count + 1
    if packet.time - began >= LEARN * 1000000000 then
        services:add { packet.time, packet.source, packet.source_port, packet.destination, packet.source_mac }
    end
end)
