package fakeprovider

import (
	"encoding/binary"
	"hash/crc32"
)

const eventStreamType = "application/vnd.amazon.eventstream"

// EventMessage frames one message of the AWS event stream encoding
// (vnd.amazon.eventstream): total length, length of the headers, CRC of these
// eight bytes, headers (name, type 7 for a string, value), payload, CRC of all.
func EventMessage(headers [][2]string, payload []byte) []byte {
	var h []byte
	for _, kv := range headers {
		h = append(h, byte(len(kv[0])))
		h = append(h, kv[0]...)
		h = append(h, 7)
		h = binary.BigEndian.AppendUint16(h, uint16(len(kv[1])))
		h = append(h, kv[1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(h)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, h...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func bedrockEvent(kind string, payload any) []byte {
	return EventMessage([][2]string{{":event-type", kind}, {":content-type", "application/json"}, {":message-type", "event"}}, enc(payload))
}

func bedrockException(kind string, payload any) []byte {
	return EventMessage([][2]string{{":exception-type", kind}, {":content-type", "application/json"}, {":message-type", "exception"}}, enc(payload))
}
