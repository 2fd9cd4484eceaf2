package wire

import "encoding/binary"

const assignmentFormat = 1

// Assignment is what the leader tells each member beside its partitions.
type Assignment struct {
	// Topology is the fingerprint of the plan that the partitions were dealt out by.
	Topology uint64
	// Unfinished says that some partitions are nobody's yet: members have to give them up first, and a round is to follow.
	Unfinished bool
}

// AppendAssignment appends a in format 1: the user data of an assignment.
func AppendAssignment(dst []byte, a Assignment) []byte {
	dst = append(dst, assignmentFormat)
	dst = binary.LittleEndian.AppendUint64(dst, a.Topology)
	if a.Unfinished {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// DecodeAssignment decodes what AppendAssignment appended.
func DecodeAssignment(b []byte) (Assignment, error) {
	r := read("group assignment", b, assignmentFormat)
	a := Assignment{Topology: r.uint64()}
	switch r.byte() {
	case 0:
	case 1:
		a.Unfinished = true
	default:
		r.fail("what is unfinished is neither yes nor no")
	}
	if err := r.end(); err != nil {
		return Assignment{}, err
	}
	return a, nil
}
