-- ARP changes: an IPv4 address that names another MAC address than before, as a new card does, and a forger.
local ADDRESSES = 100000 -- remembered

local rows = list("addresses", { "time", "address", "mac", "before" })
local macs, count = {}, 0

on("packet", { filter = "arp" }, function(packet)
    local arp = packet.arp
    -- A probe asks from no address (RFC 5227).
    if not arp or arp.sender_ip == "0.0.0.0" then return end
    local address, mac = arp.sender_ip, arp.sender_mac
    local before = macs[address]
    if before == mac then return end
    if not before then
        if count >= ADDRESSES then return end
        count = count + 1
    else
        alert("ARP: an address has moved", { address = address, before = before, mac = mac })
    end
    macs[address] = mac
    rows:add { packet.time, address, mac, before }
end)
