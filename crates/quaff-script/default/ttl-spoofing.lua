-- IP spoofing by TTL: SYNs and their answers from one address come with a TTL that differs from that before by more than HOPS:
-- another host sends them, or the route has changed.
local HOPS = argument("hops", 4)
local HOSTS = 200000 -- remembered; then all are forgotten

local SYN = "tcp[tcpflags] & tcp-syn != 0 or (ip6 and ip6[6] == 6 and ip6[53] & 2 != 0)"

local ttls, count = {}, 0

on("packet", { filter = SYN }, function(packet)
    local source, ttl = packet.source, packet.ttl
    local before = ttls[source]
    if not before then
        if count >= HOSTS then ttls, count = {}, 0 end
        count = count + 1
    elseif math.abs(before - ttl) > HOPS then
        alert("TTL of a source has changed", {
            source = source, destination = packet.destination, before = before, now = ttl, mac = packet.source_mac,
        })
    end
    ttls[source] = ttl
end)
