// Traces in Perfetto's own format.

/** An encoded trace file, packet by packet. */
export class Packets {
    bytes = Buffer.alloc(64 << 20);
    at = 0;
    static varint(value) {
        const out = [];
        for (; value > 127; value = Math.floor(value / 128)) out.push((value % 128) | 128);
        return [...out, value];
    }
    static number(field, value) {
        return [...Packets.varint(field * 8), ...Packets.varint(value)];
    }
    static text(field, value) {
        return [...Packets.varint(field * 8 + 2), ...Packets.varint(value.length), ...value];
    }
    packet(...parts) {
        const body = parts.flat();
        for (const byte of [10, ...Packets.varint(body.length), ...body]) this.bytes[this.at++] = byte;
    }
    track(uuid, name) {
        this.packet(Packets.number(10, 1), Packets.text(60, [...Packets.number(1, uuid), ...Packets.text(2, Buffer.from(name))]));
    }
    event(time, type, track, name) {
        const event = [...Packets.number(9, type), ...Packets.number(11, track), ...(name ? Packets.text(23, Buffer.from(name)) : [])];
        this.packet(Packets.number(8, time), Packets.number(10, 1), Packets.text(11, event));
    }
    get all() {
        return this.bytes.subarray(0, this.at);
    }
}
