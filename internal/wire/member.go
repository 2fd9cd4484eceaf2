package wire

import "encoding/binary"

const memberFormat = 1

// AppendMember appends m in format 1: the user data of a member's subscription.
func AppendMember(dst []byte, m Member) []byte {
	dst = append(dst, memberFormat)
	dst = appendString(dst, m.Instance)
	dst = binary.AppendUvarint(dst, uint64(m.Worker))
	return binary.LittleEndian.AppendUint64(dst, m.Topology)
}

// DecodeMember decodes what AppendMember appended.
func DecodeMember(b []byte) (Member, error) {
	r := read("group member", b, memberFormat)
	m := Member{Instance: r.string(), Worker: r.int32(), Topology: r.uint64()}
	if err := r.end(); err != nil {
		return Member{}, err
	}
	return m, nil
}
