-- ICMP that a network seldom needs: redirects, router advertisements, masks, timestamps, large echoes, and replies to
-- echoes that were not sent.
local LARGE = argument("large", 1000) -- bytes of an echo
local ECHOES = 50000 -- remembered for half a minute

local ODD = {
    icmp = {
        [4] = "source quench", [5] = "redirect", [9] = "router advertisement", [13] = "timestamp request",
        [15] = "information request", [17] = "address mask request",
    },
    icmp6 = { [137] = "redirect", [139] = "node information query" },
}
local REQUEST, REPLY = { icmp = 8, icmp6 = 128 }, { icmp = 0, icmp6 = 129 }

local echoes, before, count = {}, {}, 0

local function note(packet, what)
    alert("ICMP: " .. what, {
        source = packet.source, destination = packet.destination, type = packet.icmp_type, code = packet.icmp_code,
        length = packet.length,
    })
end

on("packet", { filter = "icmp or icmp6" }, function(packet)
    local protocol, type = packet.protocol, packet.icmp_type
    if not type then return end
    local odd = ODD[protocol] and ODD[protocol][type]
    if odd then note(packet, odd) end
    if type == REQUEST[protocol] then
        if packet.length > LARGE then note(packet, "large echo request") end
        local key = packet.source .. " " .. packet.destination
        if count < ECHOES and not echoes[key] then echoes[key], count = true, count + 1 end
    elseif type == REPLY[protocol] then
        local key = packet.destination .. " " .. packet.source
        if count < ECHOES and not echoes[key] and not before[key] then note(packet, "reply without a request") end
    end
end)

on("timer", { every = "30s" }, function() echoes, before, count = {}, echoes, 0 end)
