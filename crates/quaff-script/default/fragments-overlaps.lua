-- Fragments and overlaps, as evasions use them: first fragments too small for their headers, fragments that overlap,
-- and TCP segments with other bytes at the same place.
local TINY = argument("tiny", 64) -- bytes of a first fragment, at least
local DATAGRAMS, RANGES = 5000, 45 -- remembered for half a minute

local HEADERS = { tcp = 20, udp = 8 }
local datagrams, count = {}, 0

local function ends(packet) return { source = packet.source, destination = packet.destination } end

-- Returns true if a range of bytes shares some with those that are known.
local function overlaps(ranges, first, last)
    for _, range in ipairs(ranges) do
        if first < range[2] and range[1] < last then return true end
    end
    return false
end

on("packet", { filter = "ip[6:2] & 0x3fff != 0 or (ip6 and ip6[6] == 44)" }, function(packet)
    local fragment = packet.fragment
    if not fragment then return end
    local bytes = #packet:payload()
    if fragment.offset == 0 then bytes = bytes + (HEADERS[packet.protocol] or 0) end
    if fragment.offset == 0 and fragment.more and bytes < TINY then
        local fields = ends(packet)
        fields.bytes = bytes
        alert("tiny first fragment", fields)
    end
    local key = packet.source .. " " .. packet.destination .. " " .. fragment.id
    local ranges = datagrams[key]
    if not ranges then
        if count >= DATAGRAMS then return end
        ranges, count = {}, count + 1
        datagrams[key] = ranges
    end
    if overlaps(ranges, fragment.offset, fragment.offset + bytes) and not ranges.is_known then
        ranges.is_known = true
        local fields = ends(packet)
        fields.id, fields.offset = fragment.id, fragment.offset
        alert("fragments overlap", fields)
    end
    if #ranges < RANGES then ranges[#ranges + 1] = { fragment.offset, fragment.offset + bytes } end
end)

on("timer", { every = "30s" }, function() datagrams, count = {}, 0 end)

on("evidence", {}, function(flow, evidence)
    if evidence.kind ~= "overlap" then return end
    alert("TCP segments overlap with other bytes", {
        flow = flow.key, from = evidence.from, offset = evidence.offset, bytes = evidence.bytes,
        first = evidence.first, second = evidence.second, kept = evidence.kept,
    })
end)
