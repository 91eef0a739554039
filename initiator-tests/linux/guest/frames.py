"""frames.py FILE: checks a capture (pcap, Ethernet) of RoCEv2 over IPv4.

Computes the integrity check of every frame anew, after the InfiniBand Architecture
Specification vol. 1 (the invariant CRC) and its annex A17, RoCEv2 (what of IP and
UDP counts as ones). Shares no code with the daemon or with Linux. Prints for each
direction the number of frames, of those with a wrong check, and the length of the
longest datagram's payload. Status 1 when a check is wrong or cannot be made.
"""

import struct
import sys
import zlib


def packets(path):
    """Ethernet frames of a classic pcap file, in order."""
    with open(path, "rb") as file:
        magic = file.read(24)[:4]
        order = {b"\xd4\xc3\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">"}[magic]
        while header := file.read(16):
            _, _, kept, length = struct.unpack(order + "4I", header)
            if kept != length:
                sys.exit("a frame is cut short")
            yield file.read(kept)


def expected(ip, header):
    """The check of an IPv4 packet whose IP header has `header` bytes."""
    masked = bytearray(ip[:-4])
    ones = [1, 8, 10, 11]  # type of service, time to live, header checksum
    ones += [header + 6, header + 7]  # UDP checksum
    ones += [header + 8 + 4]  # congestion bits and reserved ones of the BTH
    for at in ones:
        masked[at] = 0xFF
    # Eight bytes of ones stand for the local route header of InfiniBand.
    return zlib.crc32(b"\xff" * 8 + bytes(masked))


def main(path):
    seen = {}
    for frame in packets(path):
        if frame[12:14] != b"\x08\x00":
            continue
        ip = frame[14 : 14 + struct.unpack("!H", frame[16:18])[0]]
        header = (ip[0] & 15) * 4
        if ip[9] != 17 or ip[header + 2 : header + 4] != b"\x12\xb7":
            continue
        if struct.unpack("!H", ip[6:8])[0] & 0x3FFF:
            sys.exit("a RoCE packet was fragmented")
        way = ".".join(map(str, ip[12:16])) + " > " + ".".join(map(str, ip[16:20]))
        count = seen.setdefault(way, [0, 0, 0])
        count[0] += 1
        count[1] += expected(ip, header) != struct.unpack("<I", ip[-4:])[0]
        count[2] = max(count[2], len(ip) - header - 8)
    for way, (frames, wrong, longest) in sorted(seen.items()):
        print(f"{way}: {frames} frames, {wrong} wrong, longest {longest}")
    return len(seen) != 2 or any(wrong for _, wrong, _ in seen.values())


sys.exit(main(sys.argv[1]))
