-- SYN floods: more than RATE SYNs in a second to one port, and fewer than half as many connections that clients close.
local RATE = argument("rate", 500)
local TARGETS = 50000 -- remembered in a second

local SYN = "tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn or (ip6 and ip6[6] == 6 and ip6[53] & 0x12 == 2)"
local FIN = "tcp[tcpflags] & tcp-fin != 0 or (ip6 and ip6[6] == 6 and ip6[53] & 1 != 0)"

local targets, count = {}, 0

on("packet", { filter = SYN }, function(packet)
    local key = packet.destination .. " " .. packet.destination_port
    local of = targets[key]
    if not of then
        if count >= TARGETS then return end
        of, count = { syns = 0, closed = 0 }, count + 1
        targets[key] = of
    end
    of.syns = of.syns + 1
end)

on("packet", { filter = FIN }, function(packet)
    local of = targets[packet.destination .. " " .. packet.destination_port]
    if of then of.closed = of.closed + 1 end
end)

on("timer", { every = "1s" }, function()
    for key, of in pairs(targets) do
        if of.syns > RATE and of.closed * 2 < of.syns then
            alert("SYN flood", { target = key, syns = of.syns, closed = of.closed })
        end
    end
    targets, count = {}, 0
end)
