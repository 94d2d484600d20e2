#!/usr/bin/env python3
"""What is inside the tunnels of a pcap file, one line for each packet.

An independent reading of the standards, to set beside quaff's: no third-party module, nothing but
struct, and no care for speed. Usage: decap.py FILE [DEPTH]. A line is one of

    plain                          no tunnel, or one that carries no frame that we know
    control                        a packet of a tunnel that carries no frame
    damaged KIND                   a tunnel whose header makes no sense
    fragment OFFSET MORE HEX       a piece of an IP packet that could be a tunnel
    inner LINK LENGTH TAG KIND ID SEQUENCE HEX

with "-" for what is not known. Where a standard does not say what follows a header, two rules hold:

- MPLS: 4 and 6 in the first half byte are IP if the length in it is no longer than the packet. Else
  Ethernet behind a control word if both look right, else Ethernet, else damage.
- L2TPv3: cookie and sublayer are not announced. In this order: sublayer; nothing; cookie 4 and
  sublayer; cookie 8 and sublayer; cookie 4; cookie 8; the first behind which there is Ethernet.

"Looks like Ethernet" is `looks_like_ethernet` below.
"""
import struct
import sys
from ipaddress import ip_address

ETHERNET, RAW = 1, 101
TAGS = (0x8100, 0x88A8, 0x9100, 0x9200)
KNOWN_TYPES = {
    0x22F0, 0x22F3, 0x8035, 0x8137, 0x8847, 0x8848, 0x8863, 0x8864, 0x888E, 0x8892, 0x88A4, 0x88B8, 0x88B9,
    0x88BA, 0x88C7, 0x88CC, 0x88E5, 0x88E7, 0x88F7, 0x8902, 0x8906, 0x8914, 0x8915, 0x8809, 0x893A, 0x894F,
    0x9000,
}  # fmt: skip


class Plain(Exception):
    pass


class Control(Exception):
    pass


class Damaged(Exception):
    pass


class Fragment(Exception):
    pass


class Data:
    """Captured bytes, and their original number (None: unknown)."""

    def __init__(self, captured, wire):
        self.captured, self.wire = captured, wire

    def drop(self, count, kind=None):
        """The rest behind `count` bytes, all of which must be there."""
        if count > len(self.captured):
            raise Damaged(kind) if kind else Plain()
        return Data(self.captured[count:], None if self.wire is None else self.wire - count)

    def only(self, count):
        """The first `count` bytes; what is behind them is padding."""
        wire = count if self.wire is None else min(count, self.wire)
        return Data(self.captured[:wire], wire)

    def unpack(self, form, kind=None):
        size = struct.calcsize(form)
        if size > len(self.captured):
            raise Damaged(kind) if kind else Plain()
        return struct.unpack(form, self.captured[:size])

    def nibble(self, kind):
        return self.unpack(">B", kind)[0] >> 4


def cut(data, length):
    return data.only(length) if length else data


class Layer:
    """What one tunnel held."""

    def __init__(self, data, link, kind, number=None, sequence=None, tag=None):
        self.data, self.link, self.kind = data, link, kind
        self.number, self.sequence, self.tag = number, sequence, tag
        if link == ETHERNET and data.wire is not None and data.wire < 14:
            raise Damaged(kind)

    def rank(self):
        return 2 if self.sequence is not None else 1 if self.number is not None else 0


def ip_layer(data, versions, kind, number=None, sequence=None):
    if data.nibble(kind) not in versions:
        raise Damaged(kind)
    return Layer(data, RAW, kind, number, sequence)


# Links and networks.


def frame(data, link):
    if link == ETHERNET:
        (kind,) = data.drop(12).unpack(">H")
        data = data.drop(14)
    elif link == 113:  # LINUX_SLL
        (kind,) = data.drop(14).unpack(">H")
        data = data.drop(16)
    elif link == 276:  # LINUX_SLL2
        (kind,) = data.unpack(">H")
        data = data.drop(20)
    elif link in (9, 50):
        kind, data = ppp_frame(data)
    elif link == 104:
        kind, data = hdlc(data)
    elif link in (0, 108):  # BSD loopback
        kind, data = bare(data.drop(4))
    elif link in (109, 13):  # OpenBSD enc
        kind, data = bare(data.drop(12))
    elif link in (12, 14, RAW):
        kind, data = bare(data)
    elif link in (228, 229):
        kind = {228: 0x0800, 229: 0x86DD}[link]
    else:
        raise Plain
    return network(*tags(data, kind))


def tags(data, kind):
    while kind in TAGS:
        kind = data.unpack(">HH")[1]
        data = data.drop(4)
    return data, kind


def bare(data):
    kind = {4: 0x0800, 6: 0x86DD}.get(data.unpack(">B")[0] >> 4)
    if kind is None:
        raise Plain
    return kind, data


def ppp_frame(data):
    if data.captured[:2] == b"\xff\3":
        return ppp(data.drop(2))
    if data.captured[:2] in (b"\x0f\0", b"\x8f\0"):
        return hdlc(data)
    return ppp(data)


def hdlc(data):
    if data.captured[:1] not in (b"\x0f", b"\x8f"):
        raise Plain
    (kind,) = data.drop(2).unpack(">H")
    return kind, data.drop(4)


def ppp(data):
    """RFC 1661: a protocol is one byte if that is odd."""
    number, size = data.unpack(">B")[0], 1
    if number % 2 == 0:
        (number,), size = data.unpack(">H"), 2
    kind = {0x0021: 0x0800, 0x0057: 0x86DD, 0x0281: 0x8847, 0x0283: 0x8848}.get(number)
    if kind is None:
        raise Plain
    return kind, data.drop(size)


def network(data, kind, above=0):
    """`above` headers precede that are neither IP nor labels."""
    if above > 3:
        raise Plain
    if kind == 0x8864:  # PPPoE
        length = data.unpack(">4xH")[0]
        return network(*reversed(ppp(cut(data.drop(6), length))), above + 1)
    if kind in (0x6558, 0x88E7, 0x8903):  # Ethernet, also of a backbone
        data = data.drop({0x6558: 0, 0x88E7: 4, 0x8903: 2}[kind])
        (kind,) = data.drop(12).unpack(">H")
        return network(*tags(data.drop(14), kind), above + 1)
    if kind <= 1500:  # a length, and SNAP
        if data.captured[:6] != b"\xaa\xaa\3\0\0\0":
            raise Plain
        data = cut(data, kind if kind >= 8 else 0)  # small numbers are those of Linux cooked
        (inner,) = data.drop(6).unpack(">H")
        data, inner = tags(data.drop(8), inner)
        if inner not in (0x0800, 0x86DD):
            raise Plain
        return network(data, inner, above + 1)
    if kind == 0x0800:
        return ipv4(data)
    if kind == 0x86DD:
        return ipv6(data)
    if kind in (0x8847, 0x8848):
        return mpls(data)
    raise Plain


def ipv4(data):
    first, _, total, ident, piece, _, protocol, _, source, _ = data.unpack(">BBHHHBBH4s4s")
    header = (first & 15) * 4
    if first >> 4 != 4 or header < 20 or 0 < total < header:
        raise Plain
    if total:  # 0 in packets that have not been segmented yet
        data = data.only(total)
    data = data.drop(header)
    if piece & 0x3FFF:
        if protocol not in (4, 17, 41, 47, 115, 137):  # extension headers are of IPv6
            raise Plain
        raise fragment(data, protocol, (piece & 0x1FFF) * 8, piece >> 13 & 1)
    return transport(data, protocol)


def ipv6(data):
    first, length, following, _, _, _ = data.unpack(">IHBB16s16s")
    if first >> 28 != 6:
        raise Plain
    if length:
        data = data.only(40 + length)
    return headers(data.drop(40), following, True)


def headers(data, following, whole):
    for _ in range(12):
        if following not in (0, 43, 44, 51, 60, 135, 139, 140):
            return transport(data, following)
        after, length, piece, _ = data.unpack(">BBHI")
        if following == 44:
            if not whole:
                raise Plain
            data = data.drop(8)
            if piece & 0xFFF9:
                raise fragment(data, after, piece & 0xFFF8, piece & 1)
        else:
            data = data.drop((length + 2) * 4 if following == 51 else (length + 1) * 8)
        following = after
    raise Plain


def fragment(data, protocol, offset, more):
    if protocol not in (4, 17, 41, 47, 115, 137, 0, 43, 44, 51, 60, 135, 139, 140):
        return Plain()
    return Fragment(offset, more, data.captured)


def transport(data, protocol):
    if protocol == 47:
        return gre(data)
    if protocol == 17:
        return udp(data)
    if protocol == 4:
        return ip_layer(data, (4,), "ipip")
    if protocol == 41:
        return ip_layer(data, (6,), "ipip")
    if protocol == 115:
        return l2tp_ip(data)
    if protocol == 137:
        return mpls(data)
    raise Plain


PORTS = {
    4789: ("vxlan", lambda data: vxlan(data)),
    8472: ("vxlan", lambda data: vxlan(data)),
    4790: ("vxlan", lambda data: vxlan_gpe(data)),
    6081: ("geneve", lambda data: geneve(data)),
    6635: ("mpls", lambda data: mpls(data)),
    2152: ("gtp", lambda data: gtp(data)),
    1701: ("l2tp", lambda data: l2tp_udp(data)),
    37008: ("tzsp", lambda data: tzsp(data)),
    4754: ("gre", lambda data: gre(data)),
}


def udp(data):
    source, destination, length, _ = data.unpack(">HHHH")
    kind, parse = PORTS.get(destination, PORTS[1701] if source == 1701 else (None, None))
    payload = data.drop(8)
    if parse is None:
        # An ERSPAN type III marker: a signature at the end of 58 bytes.
        if payload.captured[54:58] == b"\xa5" * 4 and length >= 66:
            raise Control
        raise Plain
    if 0 < length < 8:
        raise Damaged(kind)
    return parse(payload.only(length - 8) if length else payload)


# Tunnels.


def gre(data):
    flags, version, protocol = data.unpack(">BBH", "gre")
    kind = {0x88BE: "erspan", 0x22EB: "erspan", 0x8847: "mpls", 0x8848: "mpls"}.get(protocol, "gre")
    if kind == "gre" and protocol not in (0x0800, 0x86DD, 0x6558, 0x883E, 0) or version & 7 == 1:
        raise Plain
    if version & 7:
        raise Damaged(kind)
    data, key, sequence = data.drop(4), None, None
    if flags & 0xC0:
        data = data.drop(4, kind)
    if flags & 0x20:
        (key,) = data.unpack(">I", kind)
        data = data.drop(4)
    if flags & 0x10:
        (sequence,) = data.unpack(">I", kind)
        data = data.drop(4)
    if flags & 0x40:
        for _ in range(16):
            family, _, length = data.unpack(">HBB", kind)
            data = data.drop(4).drop(length, kind)
            if (family, length) == (0, 0):
                break
        else:
            raise Damaged(kind)
    if kind == "erspan":
        return erspan(data, protocol, sequence)
    if kind == "mpls":
        layer = mpls(data)
        layer.sequence = sequence
        return layer
    if protocol == 0:
        raise Control
    if protocol == 0x6558:
        if flags == 0x20 and 0x1000 <= key >> 8 <= 0xFFFFFE:
            return Layer(data, ETHERNET, "nvgre", key >> 8)
        return Layer(data, ETHERNET, "gre", key, sequence)
    if protocol == 0x883E:  # WCCP: version 2 has a redirect header of 4 bytes, which does not begin as IPv4 does
        if not data.captured or not 0x45 <= data.captured[0] <= 0x4F:
            data = data.drop(4, "gre")
        return ip_layer(data, (4,), "gre", key, sequence)
    return ip_layer(data, (4,) if protocol == 0x0800 else (6,), "gre", key, sequence)


def erspan(data, protocol, sequence):
    if protocol == 0x88BE and sequence is None:
        return Layer(data, ETHERNET, "erspan")
    first, _ = data.unpack(">II", "erspan")
    version, vlan, cos, middle = first >> 28, first >> 16 & 0xFFF, first >> 13 & 7, first >> 11 & 3
    truncated, session = first >> 10 & 1, first & 0x3FF
    if version not in (1, 2):
        raise Damaged("erspan")
    data, tag, link = data.drop(8), None, ETHERNET
    if version == 1 and middle == 2:  # En: the 802.1Q tag was taken out
        tpid, tci = struct.unpack_from(">HH", data.captured.ljust(16, b"\0"), 12)
        if len(data.captured) < 16 or (tpid, tci & 0xFFF) != (0x8100, vlan):  # some leave it in
            tag = (0x8100, cos << 13 | vlan)
    if version == 2:
        (last,) = data.unpack(">I", "erspan")
        data = data.drop(4)
        if last & 1:
            data = data.drop(8, "erspan")
        link = {0: ETHERNET, 2: RAW}.get(last >> 10 & 31)
        if link is None:
            raise Damaged("erspan")
    if truncated:
        data.wire = None
    if link == RAW:
        return ip_layer(data, (4, 6), "erspan", session, sequence)
    return Layer(data, ETHERNET, "erspan", session, sequence, tag)


def vxlan(data):
    flags, _, vni = data.unpack(">B3sI", "vxlan")
    if not flags & 8:
        raise Damaged("vxlan")
    return Layer(data.drop(8), ETHERNET, "vxlan", vni >> 8)


def vxlan_gpe(data):
    flags, _, following, vni = data.unpack(">B2sBI", "vxlan")
    if flags & 0x30 or not flags & 8:
        raise Damaged("vxlan")
    if flags & 1:
        raise Control
    data = data.drop(8)
    return following_of(data, following if flags & 4 else 3, {1: 4, 2: 6, 3: "eth", 5: "mpls"}, "vxlan", vni >> 8)


def geneve(data):
    first, flags, protocol, vni = data.unpack(">BBHI", "geneve")
    if first >> 6:
        raise Damaged("geneve")
    if flags & 0x80:
        raise Control
    data = data.drop(8).drop((first & 63) * 4, "geneve")
    meanings = {0x0800: 4, 0x86DD: 6, 0x6558: "eth", 0x8847: "mpls"}
    return following_of(data, protocol, meanings, "geneve", vni >> 8)


def following_of(data, number, meanings, kind, vni):
    meaning = meanings.get(number)
    if meaning is None:
        raise Plain
    if meaning == "eth":
        return Layer(data, ETHERNET, kind, vni)
    if meaning == "mpls":
        layer = mpls(data)
        layer.kind, layer.number = kind, vni
        return layer
    return ip_layer(data, (meaning,), kind, vni)


def mpls(data):
    labels = []
    while not labels or not labels[-1] & 0x100:
        if len(labels) == 16:
            raise Damaged("mpls")
        labels.append(data.unpack(">I", "mpls")[0])
        data = data.drop(4)
    labels = [entry >> 12 for entry in labels]
    bottom = labels[-1]
    # 7 says that the next label is entropy, which names nothing.
    named = [l for at, l in enumerate(labels) if l != 7 and (at == 0 or labels[at - 1] != 7)]
    session = named[-1] if named else None
    nibble = data.nibble("mpls")
    if bottom == 13:
        raise Control
    if nibble in (4, 6) and bottom not in (0, 2) or (bottom, nibble) in ((0, 4), (2, 6)):
        length, fits = ip_length(data)
        if fits:
            return ip_layer(data if length is None else data.only(length), (4, 6), "mpls", session)
    if bottom in (0, 2):
        raise Damaged("mpls")
    word = data.captured
    if len(word) >= 4 and word[0] == 0 and word[1] < 64 and (word[1] == 0 or word[1] <= len(word)):
        if looks_like_ethernet(data.drop(4)):
            return Layer(data.drop(4), ETHERNET, "mpls", session)
    if looks_like_ethernet(data):
        return Layer(data, ETHERNET, "mpls", session)
    if word[:2] == b"\x10\x00":
        raise Control
    raise Damaged("mpls")


def ip_length(data):
    """The length that an IP header gives, None for none, and whether the packet has that much."""
    captured = data.captured
    if 0x40 <= captured[0] <= 0x44:
        return None, False
    if len(captured) < 6:
        return None, True
    at, more = (2, 0) if captured[0] >> 4 == 4 else (4, 40)
    (length,) = struct.unpack_from(">H", captured, at)
    if length == 0:
        return None, True
    length += more
    return length, length >= 20 and (data.wire is None or length <= data.wire)


def looks_like_ethernet(data):
    """Known types, three tags at the most, and nothing behind them that cannot be."""
    captured, at = data.captured, 12
    for _ in range(4):
        if len(captured) < at + 2:
            return False
        (kind,) = struct.unpack_from(">H", captured, at)
        at += 2
        if kind not in TAGS:
            break
        at += 2
    else:
        return False
    after = captured[at:]
    if kind <= 1500:
        whole = at + kind
        return kind >= 3 and (data.wire is None or whole == data.wire or whole < data.wire <= 60)
    if kind == 0x0800:
        return not after or 0x45 <= after[0] <= 0x4F
    if kind == 0x86DD:
        return not after or after[0] >> 4 == 6
    if kind == 0x0806:
        return len(after) < 2 or after[:2] == b"\0\1"
    return kind in KNOWN_TYPES


def gtp(data):
    flags, message, length, teid = data.unpack(">BBHI", "gtp")
    if flags >> 4 != 3:  # version 1, protocol type 1
        raise Damaged("gtp")
    if message != 255:
        raise Control
    data = data.drop(8).only(length)
    if flags & 7:
        _, _, following = data.unpack(">HBB", "gtp")
        following = following if flags & 4 else 0
        data = data.drop(4)
        for _ in range(16):
            if following == 0:
                break
            (units,) = data.unpack(">B", "gtp")
            if units == 0:
                raise Damaged("gtp")
            rest = data.drop(units * 4, "gtp")
            following, data = data.captured[units * 4 - 1], rest
        else:
            raise Damaged("gtp")
    return ip_layer(data, (4, 6), "gtp", teid)


def l2tp_ip(data):
    (session,) = data.unpack(">I", "l2tp")
    if session == 0:
        raise Control
    return l2tp_frame(data.drop(4), session)


def l2tp_udp(data):
    flags, _ = data.unpack(">HH", "l2tp")
    if flags & 15 == 2:
        raise Plain
    if flags & 15 != 3:
        raise Damaged("l2tp")
    if flags & 0x8000:
        raise Control
    (session,) = data.drop(4).unpack(">I", "l2tp")
    return l2tp_frame(data.drop(8), session)


def l2tp_frame(data, session):
    for cookie, sublayer in ((0, 4), (0, 0), (4, 4), (8, 4), (4, 0), (8, 0)):
        if len(data.captured) < cookie + sublayer:
            continue
        word = data.captured[cookie : cookie + sublayer]
        if word and word[0] != 0x40 and word != bytes(4):
            continue
        inner = data.drop(cookie + sublayer)
        if looks_like_ethernet(inner):
            return Layer(inner, ETHERNET, "l2tp", session)
    raise Damaged("l2tp")


def tzsp(data):
    version, kind, protocol = data.unpack(">BBH", "tzsp")
    if version != 1:
        raise Damaged("tzsp")
    if kind in (3, 4, 5):
        raise Control
    if kind not in (0, 1):
        raise Damaged("tzsp")
    data, length = data.drop(4), None
    for _ in range(64):
        (tag,) = data.unpack(">B", "tzsp")
        data = data.drop(1)
        if tag == 1:
            break
        if tag:
            (size,) = data.unpack(">B", "tzsp")
            value = data.drop(1)
            data = value.drop(size, "tzsp")
            if (tag, size) == (41, 2):
                (length,) = value.unpack(">H")
    else:
        raise Damaged("tzsp")
    if length is not None:
        data.wire = max(length, data.wire or 0, len(data.captured))
    link = {1: ETHERNET, 18: 105, 119: 119, 127: 163}.get(protocol)
    if link is None:
        raise Plain
    return Layer(data, link, "tzsp")


# The file, and the lines.


def strip(captured, wire, link, depth):
    try:
        layers = [frame(Data(captured, max(wire, len(captured))), link)]
        try:
            while len(layers) < depth:
                layers.append(frame(layers[-1].data, layers[-1].link))
        except (Plain, Control, Damaged, Fragment):
            pass
        return describe(layers)
    except Plain:
        return "plain"
    except Control:
        return "control"
    except Damaged as kind:
        return f"damaged {kind}"
    except Fragment as piece:
        offset, more, payload = piece.args
        return f"fragment {offset} {more} {payload.hex()}"


def describe(layers):
    last, named = layers[-1], max(layers, key=Layer.rank)  # the first of equals
    tag = "-" if last.tag is None else "%04x:%04x" % last.tag
    known = lambda value: "-" if value is None else str(value)
    numbers = f"{known(named.number)} {known(named.sequence)}"
    return f"inner {last.link} {known(last.data.wire)} {tag} {named.kind} {numbers} {last.data.captured.hex()}"


def packets(file):
    """Of a pcap file, either byte order, µs or ns: link type, then (captured, wire length)."""
    order = "<" if file[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    if struct.unpack(order + "I", file[:4])[0] not in (0xA1B2C3D4, 0xA1B23C4D):
        sys.exit("not a pcap file")
    yield struct.unpack(order + "I", file[20:24])[0] & 0xFFFF
    at = 24
    while at + 16 <= len(file):
        _, _, captured, wire = struct.unpack_from(order + "IIII", file, at)
        yield file[at + 16 : at + 16 + captured], wire
        at += 16 + captured


def main():
    with open(sys.argv[1], "rb") as file:
        records = packets(file.read())
    depth = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    link = next(records)
    for captured, wire in records:
        print(strip(captured, wire, link, depth))


if __name__ == "__main__":
    main()
