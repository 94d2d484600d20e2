#!/usr/bin/env python3
"""A slow and obvious flow meter: `oracle.py [--active S] [--idle S] [--linger S] [--uniflow] FILE…`.

It reads pcap and pcapng by itself, with the standard library only, and prints one JSON object for each flow, and at the
end {"ledger": …}. It shares no code with quaff, but obeys the same rules, which docs/flows.md states. Everything is done
one packet at a time with plain dictionaries; nothing is fast.
"""

import argparse
import gzip
import ipaddress
import json
import struct
import sys

SECOND = 1_000_000_000

# ---------------------------------------------------------------------------------------------------------------------
# Capture files: a list of (time in ns, link type, captured bytes, length on the wire, interface).


def packets_of(path):
    """All packets of a capture file, in its order."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    if data[:4] == b"\x0a\x0d\x0d\x0a":
        return list(pcapng(data))
    return list(pcap(data))


PCAP_MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}


def pcap(data):
    """The packets of a pcap file; it ends where a record is cut."""
    if data[:4] not in PCAP_MAGICS:
        return
    order, unit = PCAP_MAGICS[data[:4]]
    # The upper bits are the length of the FCS.
    linktype = struct.unpack(order + "I", data[20:24])[0] & 0xFFFF
    at = 24
    while at + 16 <= len(data):
        seconds, fraction, captured, wire = struct.unpack(order + "IIII", data[at : at + 16])
        at += 16
        if at + captured > len(data):
            return
        yield (seconds * SECOND + fraction * unit, linktype, data[at : at + captured], wire, 0)
        at += captured


def pcapng(data):
    """The packets of a pcapng file: enhanced, simple and obsolete packet blocks."""
    at, order, interfaces, base = 0, "<", [], 0
    while at + 12 <= len(data):
        kind = data[at : at + 4]
        if kind == b"\x0a\x0d\x0d\x0a":
            order = "<" if data[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
            base += len(interfaces)
            interfaces = []
        kind, length = struct.unpack(order + "II", data[at : at + 8])
        if length < 12 or at + length > len(data):
            return
        body = data[at + 8 : at + length - 4]
        at += length
        if kind == 1:
            interfaces.append(interface(body, order))
        elif kind == 6:
            number, high, low, captured, wire = struct.unpack(order + "IIIII", body[:20])
            linktype, tick, offset, _ = interfaces[number]
            time = tick((high << 32) | low) + offset * SECOND
            yield (time, linktype, body[20 : 20 + captured], wire, base + number)
        elif kind == 2:
            number, _, high, low, captured, wire = struct.unpack(order + "HHIIII", body[:20])
            linktype, tick, offset, _ = interfaces[number]
            time = tick((high << 32) | low) + offset * SECOND
            yield (time, linktype, body[20 : 20 + captured], wire, base + number)
        elif kind == 3:
            wire = struct.unpack(order + "I", body[:4])[0]
            linktype, _, _, snaplen = interfaces[0]
            captured = min(wire, snaplen or wire, len(body) - 4)
            yield (0, linktype, body[4 : 4 + captured], wire, base)


def interface(body, order):
    """Link type, a function from ticks to ns, the offset in seconds, and the snaplen."""
    linktype, _, snaplen = struct.unpack(order + "HHI", body[:8])
    resolution, offset, at = 6, 0, 8
    while at + 4 <= len(body):
        code, length = struct.unpack(order + "HH", body[at : at + 4])
        value = body[at + 4 : at + 4 + length]
        if code == 0:
            break
        if code == 9:
            resolution = value[0]
        if code == 14:
            offset = struct.unpack(order + "q", value)[0]
        at += 4 + (length + 3) // 4 * 4
    per_second = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution
    return linktype, lambda ticks: ticks * SECOND // per_second, offset, snaplen


# ---------------------------------------------------------------------------------------------------------------------
# Headers.

IPV4, IPV6, MPLS, MPLS_UPSTREAM = 0x0800, 0x86DD, 0x8847, 0x8848
TAGS = (0x8100, 0x88A8, 0x9100, 0x9200)
PPP_PROTOCOLS = {0x0021: IPV4, 0x0057: IPV6, 0x0281: MPLS, 0x0283: MPLS_UPSTREAM}


class Cut(Exception):
    """The bytes end before a field."""


class NotIp(Exception):
    """The frame has no IP header."""


def u8(data, at):
    if at < 0 or at >= len(data):
        raise Cut
    return data[at]


def u16(data, at):
    if at + 2 > len(data):
        raise Cut
    return (data[at] << 8) | data[at + 1]


def u32(data, at):
    return (u16(data, at) << 16) | u16(data, at + 2)


class Layer2:
    """Where the IP header is, the VLAN ids from the outermost on, and the top label."""

    def __init__(self):
        self.vlans, self.label, self.at = [], 0, None


def tags(data, ethertype, at, found):
    """Steps over VLAN tags; `ethertype` is the first EtherType, `at` the byte after it."""
    while ethertype in TAGS:
        if at + 4 > len(data):
            break
        found.vlans.append(u16(data, at) & 0x0FFF)
        ethertype, at = u16(data, at + 2), at + 4
    return ethertype, at


def layer2(data, linktype):
    """Finds the IP header of a frame."""
    found = Layer2()
    if linktype in (0, 108):
        # The family has the byte order of another machine, perhaps: the version of IP decides.
        if u8(data, 4) >> 4 not in (4, 6):
            raise NotIp
        found.at = 4
        return found
    try:
        ethertype, at = network(data, linktype, found)
        found.at = under(data, ethertype, at, found, 2)
    except Cut:
        raise NotIp from None
    return found


def network(data, linktype, found):
    if linktype == 1:
        return tags(data, u16(data, 12), 14, found)
    if linktype == 113:
        return tags(data, u16(data, 14), 16, found)
    if linktype == 276:
        u8(data, 19)
        return tags(data, u16(data, 0), 20, found)
    if linktype in (50, 104) and u8(data, 0) in (0x0F, 0x8F):
        return tags(data, u16(data, 2), 4, found)
    if linktype == 9 or linktype == 50 and data[:2] == b"\xff\x03":
        return ppp(data, 2 if data[:2] == b"\xff\x03" else 0)
    if linktype == 228:
        return IPV4, 0
    if linktype == 229:
        return IPV6, 0
    if linktype == 101:
        version = u8(data, 0) >> 4
        if version in (4, 6):
            return (IPV4 if version == 4 else IPV6), 0
    raise NotIp


def ppp(data, at):
    protocol = u16(data, at)
    if protocol not in PPP_PROTOCOLS:
        raise NotIp
    return PPP_PROTOCOLS[protocol], at + 2


def under(data, ethertype, at, found, deeper):
    """The offset of the IP header at `at`, or under labels, PPPoE, SNAP, and further Ethernet headers."""
    if ethertype in (IPV4, IPV6):
        return at
    if ethertype in (0x6558, 0x88E7, 0x8903) and deeper > 0:
        at += {0x6558: 0, 0x88E7: 4, 0x8903: 2}[ethertype]
        inner = Layer2()
        ethertype, after = tags(data, u16(data, at + 12), at + 14, inner)
        return under(data, ethertype, after, found, deeper - 1)
    if ethertype == 0x8864:
        ethertype, at = ppp(data, at + 6)
        return under(data, ethertype, at, found, 0)
    if ethertype in (MPLS, MPLS_UPSTREAM):
        for depth in range(16):
            entry = u32(data, at + 4 * depth)
            if depth == 0:
                found.label = entry >> 12
            if entry & 0x100:
                at += 4 * depth + 4
                if u8(data, at) >> 4 in (4, 6):
                    return at
                raise NotIp
        raise NotIp
    if ethertype <= 1500 and data[at : at + 6] == b"\xaa\xaa\x03\x00\x00\x00" and u16(data, at + 6) in (IPV4, IPV6):
        return at + 8
    raise NotIp


# ---------------------------------------------------------------------------------------------------------------------
# One packet.

TCP, UDP, SCTP, ICMP, ICMPV6 = 6, 17, 132, 1, 58
FRAGMENT, AUTHENTICATION = 44, 51
EXTENSIONS = (0, 43, FRAGMENT, AUTHENTICATION, 60, 135, 139, 140)
FIN, SYN, RST, ACK = 1, 2, 4, 16


class Packet:
    """The fields of a packet that decide its flow."""

    def __init__(self, frame):
        self.time, linktype, data, wire, self.interface = frame
        link = layer2(data, linktype)
        # Two of the VLAN ids are in the key.
        self.vlan, self.label = tuple(link.vlans + [0, 0])[:2], link.label
        self.fragment = None
        self.flags, self.sequence, self.acknowledgment = 0, 0, 0
        self.ports = (0, 0)
        version = u8(data, link.at) >> 4
        if version == 4:
            self.version4(data, link.at, wire)
        elif version == 6:
            self.version6(data, link.at, wire)
        else:
            raise Cut
        self.transport(data)

    def version4(self, data, at, wire):
        if at + 20 > len(data):
            raise Cut
        header, total = (data[at] & 15) * 4, u16(data, at + 2)
        self.bytes = total or wire - at
        end = at + (total or len(data) - at)
        if header < 20 or end - at < header or at + header > len(data):
            raise Cut
        self.source, self.destination = data[at + 12 : at + 16], data[at + 16 : at + 20]
        self.tos, self.protocol = data[at + 1], data[at + 9]
        self.at, self.end = at + header, min(end, len(data))
        word = u16(data, at + 6)
        if word & 0x3FFF:
            self.fragment = (u16(data, at + 4), self.protocol, (word & 0x1FFF) * 8)

    def version6(self, data, at, wire):
        if at + 40 > len(data):
            raise Cut
        payload = u16(data, at + 4)
        self.bytes = 40 + payload if payload else wire - at
        self.end = min(at + 40 + payload, len(data)) if payload else len(data)
        self.source, self.destination = data[at + 8 : at + 24], data[at + 24 : at + 40]
        self.tos, self.protocol = (u16(data, at) >> 4) & 0xFF, data[at + 6]
        self.at = at + 40
        for _ in range(12):
            if self.protocol not in EXTENSIONS or self.is_later() or self.at + 8 > self.end:
                break
            length = (data[self.at + 1] + 1) * 8
            if self.protocol == FRAGMENT:
                length = 8
                word = u16(data, self.at + 2)
                # Offset 0 without "more" is a whole datagram (RFC 6946).
                if word & 0xFFF9:
                    self.fragment = (u32(data, self.at + 4), FRAGMENT, word & 0xFFF8)
            if self.protocol == AUTHENTICATION:
                length = (data[self.at + 1] + 2) * 4
            if self.at + length > self.end:
                break
            self.protocol, self.at = data[self.at], self.at + length

    def is_syn(self):
        return self.flags & (SYN | ACK | RST) == SYN

    def is_later(self):
        """A fragment that is not the first of its datagram."""
        return self.fragment is not None and self.fragment[2] > 0

    def transport(self, data):
        if self.is_later():
            return
        if self.protocol in (TCP, UDP, SCTP):
            if self.at + 4 > self.end:
                raise Cut
            self.ports = (u16(data, self.at), u16(data, self.at + 2))
        if self.protocol == TCP and self.at + 14 <= self.end:
            self.flags = data[self.at + 13]
        if self.protocol == TCP and self.at + 20 <= self.end:
            self.sequence, self.acknowledgment = u32(data, self.at + 4), u32(data, self.at + 8)
        if self.protocol in (ICMP, ICMPV6):
            if self.at + 2 > self.end:
                raise Cut
            self.ports = (u16(data, self.at),) * 2


# ---------------------------------------------------------------------------------------------------------------------
# Flows.

IDLE, ACTIVE, END_OF_FLOW, FORCED = 1, 2, 3, 4
SENDER, BY_SYN, BY_SYN_ACK, BY_ICMP, BY_PORTS, FIRST = range(6)
# The reply to each request of ICMP.
REQUESTS = {ICMP: (8, 13, 15, 17), ICMPV6: (128, 139)}
REPLIES = {ICMP: {0: 8, 14: 13, 16: 15, 18: 17}, ICMPV6: {129: 128, 140: 139}}
# Time for which the ports of a datagram are known, and for which its fragments wait for them.
FRAGMENT_WAIT = SECOND


def plus(number, bytes):
    return (number + bytes) & 0xFFFFFFFF


class Connection:
    """What decides about the begin and the end of a connection of TCP.

    `follow` adds a packet, `is_another` asks whether a packet is the first of another connection, and `after` is that
    connection.
    """

    def __init__(self, has_one_end):
        self.has_one_end = has_one_end
        # Side and number of the last SYN, or of a reset since; whether it may begin another connection.
        self.last, self.is_attempt = None, False
        self.had_syn, self.had_ack = False, False
        self.fins, self.is_confirmed = [False, False], False
        # Side of the last reset, and its number if the other end's acknowledgments can be compared with it.
        self.reset, self.reset_number = None, None

    def has_fins(self):
        return any(self.fins) if self.has_one_end else all(self.fins)

    def is_closed(self):
        return self.reset is not None or self.has_fins()

    def is_another(self, packet, side):
        if self.is_attempt and packet.flags & ACK and self.continues(packet, side):
            return True
        is_over = self.reset is not None or self.has_fins() and self.is_confirmed
        is_repeated = self.had_syn and self.last == (side, packet.sequence)
        return is_over and packet.is_syn() and not is_repeated

    def continues(self, packet, side):
        """The next packet of the handshake that the last SYN began."""
        of, number = self.last
        if packet.flags & (SYN | RST):
            return (side != of or self.has_one_end) and packet.acknowledgment == plus(number, 1)
        return side == of and packet.sequence == plus(number, 1)

    def after(self, packet):
        other = Connection(self.has_one_end)
        if self.is_attempt and not packet.is_syn():
            other.last, other.had_syn = self.last, True
        return other

    def follow(self, packet, side):
        if packet.flags & RST:
            self.follow_reset(packet, side)
        else:
            if self.reset is not None and self.refutes_reset(packet, side):
                self.reset = None
            if self.has_fins() and not packet.flags & (SYN | FIN):
                self.is_confirmed = True
            if packet.is_syn():
                self.follow_syn(packet, side)
            elif not packet.flags & SYN and self.last is not None and self.last[0] == side:
                self.is_attempt = False
            if packet.flags & FIN and not self.has_fins():
                self.fins[side] = True
                self.is_confirmed = self.has_fins() and self.reset is not None
        self.had_ack = self.had_ack or packet.flags & (ACK | RST) == ACK

    def follow_syn(self, packet, side):
        if self.is_attempt or self.had_syn and self.last == (side, packet.sequence):
            return
        self.is_attempt = self.had_syn and self.had_ack or self.has_fins() and not self.is_confirmed
        self.last, self.had_syn = (side, packet.sequence), True

    def follow_reset(self, packet, side):
        self.is_attempt = False
        if self.has_fins():
            self.is_confirmed = True
            return
        if self.had_ack or not self.had_syn:
            self.last = (side, packet.sequence)
        self.reset, self.reset_number = side, self.last[1] if self.last[0] == side else None

    def refutes_reset(self, packet, side):
        """The sender of the reset continues, or the other end has received something else."""
        if side == self.reset:
            return True
        if self.reset_number is None or not packet.flags & ACK:
            return False
        ahead = plus(packet.acknowledgment, -self.reset_number)
        return 0 < ahead < 1 << 31 or 1 << 31 <= ahead < (1 << 32) - (1 << 30)


class Flow:
    """A conversation. Side 0 is the lower end, or in a uniflow the sender."""

    def __init__(self, packet, ends, connection):
        self.ends, self.protocol, self.vlan = ends, packet.protocol, packet.vlan
        self.is_first_piece = True
        self.rule, self.source = FIRST, 0
        self.connection = connection
        self.last = [0, 0]
        self.begin_piece()

    def begin_piece(self):
        self.packets, self.bytes, self.flags = [0, 0], [0, 0], [0, 0]
        # The time of a direction's last packet stays until it has another one.
        self.first = [None, None]

    def is_empty(self):
        return sum(self.packets) == 0

    def add(self, packet, side):
        self.first[side] = packet.time if self.packets[side] == 0 else min(self.first[side], packet.time)
        self.last[side] = packet.time if self.packets[side] == 0 else max(self.last[side], packet.time)
        self.packets[side] += 1
        self.bytes[side] += packet.bytes
        self.flags[side] |= packet.flags


class Meter:
    """The table, as a dictionary."""

    def __init__(self, options):
        self.options, self.flows, self.records = options, {}, []
        self.now = 0
        # Datagrams whose first fragment was seen: when, and its protocol and ports. Fragments that wait, in order.
        self.datagrams, self.held = {}, []
        self.seen, self.not_ip, self.truncated = [0, 0], 0, 0

    def take(self, frame):
        self.seen[0] += 1
        self.clock(frame[0])
        try:
            packet = Packet(frame)
        except NotIp:
            self.not_ip += 1
            self.seen[1] += frame[3]
            return
        except Cut:
            self.truncated += 1
            self.seen[1] += frame[3]
            return
        self.seen[1] += packet.bytes
        self.whole(packet)

    def clock(self, time):
        """The latest time so far; a step back by more than the idle timeout begins anew."""
        if time + self.options.idle < self.now:
            self.end()
            self.now, self.datagrams = time, {}
            return
        self.stop_waiting(max(self.now, time))
        self.now = max(self.now, time)

    # Fragments.

    def whole(self, packet):
        """Gives a later fragment the ports of its first one, or holds it."""
        if packet.fragment is None:
            return self.count(packet)
        number, protocol, offset = packet.fragment
        datagram = (packet.source, packet.destination, number, protocol, packet.vlan)
        if offset == 0:
            self.datagrams[datagram] = (self.now, packet.protocol, packet.ports)
            self.count(packet)
            waiting = [held for held in self.held if held[1] == datagram]
            self.held = [held for held in self.held if held[1] != datagram]
            for _, _, late in waiting:
                self.count(late, packet.protocol, packet.ports)
            return
        since, protocol, ports = self.datagrams.get(datagram, (None, None, None))
        if since is not None and self.now - since < FRAGMENT_WAIT:
            self.count(packet, protocol, ports)
        else:
            self.held.append((self.now, datagram, packet))

    def stop_waiting(self, now):
        """Counts fragments that have waited for too long without ports, each when its time was over."""
        while self.held and self.held[0][0] + FRAGMENT_WAIT <= now:
            since, _, packet = self.held.pop(0)
            self.now = since + FRAGMENT_WAIT
            self.count(packet)

    # Packets.

    def count(self, packet, protocol=None, ports=None):
        # A later fragment whose first is unknown has no type of ICMP.
        packet.is_typed = ports is not None or not packet.is_later()
        packet.protocol = packet.protocol if protocol is None else protocol
        packet.ports = packet.ports if ports is None else ports
        ports = packet.ports
        if packet.protocol in REQUESTS and packet.is_typed and not self.options.uniflow:
            kind, code = ports[0] >> 8, ports[0] & 0xFF
            kind = REPLIES[packet.protocol].get(kind, kind)
            ports = (kind << 8 | code,) * 2
        ends = [(packet.source, ports[0]), (packet.destination, ports[1])]
        side = 0
        if not self.options.uniflow and ends[0] > ends[1]:
            ends.reverse()
            side = 1
        key = (packet.protocol, packet.vlan, tuple(ends))
        self.expire(key)
        flow = self.flows.get(key)
        is_tcp = packet.protocol == TCP
        # A host that talks to itself on one port is both ends.
        connection = Connection(self.options.uniflow or ends[0] == ends[1])
        if flow is not None and is_tcp and flow.connection.is_another(packet, side):
            connection = flow.connection.after(packet)
            self.export(flow, END_OF_FLOW)
            flow = None
        if flow is None:
            flow = self.flows[key] = Flow(packet, ends, connection)
            self.begin(flow, packet, side)
        elif flow.is_first_piece:
            self.improve(flow, packet, side)
        flow.add(packet, side)
        if is_tcp:
            flow.connection.follow(packet, side)

    def expire(self, key):
        """Ends what is due of a flow."""
        flow = self.flows.get(key)
        if flow is None:
            return
        idle = self.options.linger if flow.connection.is_closed() else self.options.idle
        idle_due = max(flow.last) + idle
        if not flow.is_empty():
            active_due = min(first for first in flow.first if first is not None) + self.options.active
            if min(idle_due, active_due) > self.now:
                return
            if idle_due <= active_due:
                self.export(flow, END_OF_FLOW if flow.connection.is_closed() else IDLE)
            else:
                self.export(flow, ACTIVE)
                flow.begin_piece()
                flow.is_first_piece = False
        if idle_due <= self.now:
            del self.flows[key]

    def begin(self, flow, packet, side):
        """Decides which end is the source, by the first packet."""
        kind = packet.ports[0] >> 8 if packet.is_typed else None
        if self.options.uniflow:
            flow.rule, flow.source = SENDER, 0
        elif flow.connection.had_syn:
            # It came before, in the flow of another connection.
            flow.rule, flow.source = BY_SYN, flow.connection.last[0]
        elif packet.protocol == TCP and packet.flags & (SYN | ACK) == SYN:
            flow.rule, flow.source = BY_SYN, side
        elif packet.protocol == TCP and packet.flags & (SYN | ACK) == SYN | ACK:
            flow.rule, flow.source = BY_SYN_ACK, 1 - side
        elif kind in REQUESTS.get(packet.protocol, ()):
            flow.rule, flow.source = BY_ICMP, side
        elif kind in REPLIES.get(packet.protocol, ()):
            flow.rule, flow.source = BY_ICMP, 1 - side
        elif packet.protocol in (TCP, UDP, SCTP) and packet.ports[0] < 1024 and packet.ports[1] >= 32768:
            flow.rule, flow.source = BY_PORTS, 1 - side
        else:
            flow.rule, flow.source = FIRST, side

    def improve(self, flow, packet, side):
        """A SYN says more than what the first packet said."""
        if packet.protocol != TCP or self.options.uniflow:
            return
        if packet.flags & (SYN | ACK) == SYN and BY_SYN < flow.rule:
            flow.rule, flow.source = BY_SYN, side
        if packet.flags & (SYN | ACK) == SYN | ACK and BY_SYN_ACK < flow.rule:
            flow.rule, flow.source = BY_SYN_ACK, 1 - side

    # Records.

    def export(self, flow, reason):
        if flow.is_empty():
            return
        source, destination = flow.source, 1 - flow.source
        (source_address, source_port), (destination_address, destination_port) = (
            flow.ends[source],
            flow.ends[destination],
        )
        is_icmp = flow.protocol in REQUESTS
        seen = [side for side in (0, 1) if flow.packets[side]]
        self.records.append(
            {
                "source": str(ipaddress.ip_address(source_address)),
                "destination": str(ipaddress.ip_address(destination_address)),
                "source_port": 0 if is_icmp else source_port,
                "destination_port": 0 if is_icmp else destination_port,
                "icmp": source_port if is_icmp else 0,
                "protocol": flow.protocol,
                "vlan": flow.vlan[0],
                "inner_vlan": flow.vlan[1],
                "packets": flow.packets[source],
                "bytes": flow.bytes[source],
                "reverse_packets": flow.packets[destination],
                "reverse_bytes": flow.bytes[destination],
                "flags": flow.flags[source],
                "reverse_flags": flow.flags[destination],
                "first": min(flow.first[side] for side in seen),
                "last": max(flow.last[side] for side in seen),
                "reason": reason,
                "rule": flow.rule,
            }
        )

    def end(self):
        """Ends all flows: those that are due for their own reason."""
        for _, _, packet in self.held:
            self.count(packet)
        self.held = []
        for key in list(self.flows):
            self.expire(key)
        for flow in self.flows.values():
            self.export(flow, END_OF_FLOW if flow.connection.is_closed() else FORCED)
        self.flows = {}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--active", type=float, default=120)
    parser.add_argument("--idle", type=float, default=30)
    parser.add_argument("--linger", type=float, default=2)
    parser.add_argument("--uniflow", action="store_true")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    for name in ("active", "idle", "linger"):
        setattr(options, name, round(getattr(options, name) * SECOND))
    for path in options.files:
        meter = Meter(options)
        for frame in packets_of(path):
            meter.take(frame)
        meter.end()
        for record in meter.records:
            print(json.dumps(record))
        ledger = {
            "packets": meter.seen[0],
            "bytes": meter.seen[1],
            "flows_exported": len(meter.records),
            "packets_in_flows": sum(record["packets"] + record["reverse_packets"] for record in meter.records),
            "not_ip": meter.not_ip,
            "truncated": meter.truncated,
        }
        print(json.dumps({"ledger": ledger}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
