package wire

import "encoding/binary"

const reportFormat = 1

// AppendReport appends r in format 1: the value of header HeaderWatermark.
func AppendReport(dst []byte, r Report) []byte {
	dst = append(dst, reportFormat, byte(r.State))
	dst = binary.AppendUvarint(dst, uint64(r.SubTopology))
	dst = binary.AppendUvarint(dst, uint64(r.Producer))
	dst = binary.AppendUvarint(dst, uint64(r.Producers))
	return appendTime(dst, r.Watermark)
}

// DecodeReport decodes what AppendReport appended. It refuses a producer that is not below the number of producers.
func DecodeReport(b []byte) (Report, error) {
	r := read("watermark report", b, reportFormat)
	state := ReportState(r.byte())
	rep := Report{State: state, SubTopology: r.int32(), Producer: r.int32(), Producers: r.int32(), Watermark: r.time()}
	if state > End {
		r.fail("the state is none that there is")
	}
	if rep.Producer >= rep.Producers {
		r.fail("the producer is not one of the producers")
	}
	if err := r.end(); err != nil {
		return Report{}, err
	}
	return rep, nil
}
