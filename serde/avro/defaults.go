package avro

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

const (
	maxDefaultDepth = 64
	maxDefaultSize  = 1 << 20
)

// appendJSON encodes the JSON form of a default. That of a union is of the first branch that it fits; up to version 1.11 of the
// specification only the first branch counted, which is the same where it did.
func appendJSON(dst []byte, s *schema, v any, depth int) ([]byte, error) {
	if depth > maxDefaultDepth {
		return nil, errors.New("nested too deep; a record's default that leaves out a field takes the field's own default")
	}
	if len(dst) > maxDefaultSize {
		return nil, fmt.Errorf("longer than %d bytes", maxDefaultSize)
	}
	w := writer{b: dst}
	wrong := func() ([]byte, error) {
		if t, ok := v.(string); ok {
			v = strconv.Quote(t)
		}
		return nil, fmt.Errorf("%v is no %s", v, s)
	}
	switch s.kind {
	case nullKind:
		if v != nil {
			return wrong()
		}
	case booleanKind:
		b, ok := v.(bool)
		if !ok {
			return wrong()
		}
		w.b = append(w.b, 0)
		if b {
			w.b[len(w.b)-1] = 1
		}
	case intKind, longKind:
		t, _ := v.(json.Number)
		n, err := strconv.ParseInt(t.String(), 10, map[kind]int{intKind: 32, longKind: 64}[s.kind])
		if err != nil {
			return wrong()
		}
		w.long(n)
	case floatKind, doubleKind:
		t, _ := v.(json.Number)
		f, err := t.Float64()
		if err != nil {
			return wrong()
		}
		if s.kind == floatKind {
			w.b = binary.LittleEndian.AppendUint32(w.b, math.Float32bits(float32(f)))
		} else {
			w.b = binary.LittleEndian.AppendUint64(w.b, math.Float64bits(f))
		}
	case stringKind:
		t, ok := v.(string)
		if !ok {
			return wrong()
		}
		w.bytes([]byte(t))
	case bytesKind, fixedKind:
		t, ok := v.(string)
		if !ok {
			return wrong()
		}
		var raw []byte
		for _, c := range t { // each character stands for the byte of its number
			if c > 0xff {
				return wrong()
			}
			raw = append(raw, byte(c))
		}
		if s.kind == bytesKind {
			w.bytes(raw)
			break
		}
		if len(raw) != s.size {
			return wrong()
		}
		w.b = append(w.b, raw...)
	case enumKind:
		t, ok := v.(string)
		i := slices.Index(s.symbols, t)
		if !ok || i < 0 {
			return wrong()
		}
		w.long(int64(i))
	case arrayKind, mapKind:
		return appendItems(dst, s, v, depth)
	case recordKind:
		m, ok := v.(map[string]any)
		if !ok {
			return wrong()
		}
		for _, f := range s.fields {
			fv, ok := m[f.name]
			if !ok {
				if fv, ok = f.raw, f.has; !ok {
					return nil, fmt.Errorf("field %q is missing", f.name)
				}
			}
			var err error
			if w.b, err = appendJSON(w.b, f.s, fv, depth+1); err != nil {
				return nil, fmt.Errorf("field %q: %w", f.name, err)
			}
		}
	case unionKind:
		for i, b := range s.branches {
			w.b = w.b[:len(dst)]
			w.long(int64(i))
			if out, err := appendJSON(w.b, b, v, depth+1); err == nil {
				return out, nil
			}
		}
		return wrong()
	}
	return w.b, nil
}

func appendItems(dst []byte, s *schema, v any, depth int) ([]byte, error) {
	w := writer{b: dst}
	list, isList := v.([]any)
	m, isMap := v.(map[string]any)
	if isList != (s.kind == arrayKind) || isMap != (s.kind == mapKind) {
		return nil, fmt.Errorf("%v is no %s", v, s)
	}
	if n := len(list) + len(m); n > 0 {
		w.long(int64(n))
	}
	var err error
	for _, v := range list {
		if w.b, err = appendJSON(w.b, s.elem, v, depth+1); err != nil {
			return nil, err
		}
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		w.bytes([]byte(k))
		if w.b, err = appendJSON(w.b, s.elem, m[k], depth+1); err != nil {
			return nil, err
		}
	}
	w.long(0)
	return w.b, nil
}
