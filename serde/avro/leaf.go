package avro

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"time"

	"github.com/headrace/headrace/serde"
)

var (
	timeType     = reflect.TypeFor[time.Time]()
	spanType     = reflect.TypeFor[time.Duration]()
	ratType      = reflect.TypeFor[*big.Rat]()
	durationType = reflect.TypeFor[Duration]()
	uuidType     = reflect.TypeFor[[16]byte]()
)

// leaf fills b in if its Go type holds values without parts of their own.
func (b *binding) leaf() bool {
	switch b.s.kind {
	case nullKind:
		if b.t.Kind() != reflect.Struct || b.t.NumField() > 0 {
			return false
		}
		b.enc = func(*writer, reflect.Value) error { return nil }
	case booleanKind:
		if b.t.Kind() != reflect.Bool {
			return false
		}
		b.enc = func(w *writer, v reflect.Value) error {
			w.b = append(w.b, 0)
			if v.Bool() {
				w.b[len(w.b)-1] = 1
			}
			return nil
		}
	case intKind, longKind:
		return b.integers()
	case floatKind:
		if b.t.Kind() != reflect.Float32 {
			return false
		}
		b.enc = func(w *writer, v reflect.Value) error {
			w.b = binary.LittleEndian.AppendUint32(w.b, math.Float32bits(float32(v.Float())))
			return nil
		}
	case doubleKind:
		if b.t.Kind() != reflect.Float64 {
			return false
		}
		b.enc = func(w *writer, v reflect.Value) error {
			w.b = binary.LittleEndian.AppendUint64(w.b, math.Float64bits(v.Float()))
			return nil
		}
	case bytesKind, fixedKind:
		return b.raw()
	case stringKind:
		return b.text()
	case enumKind:
		if b.t.Kind() != reflect.String {
			return false
		}
		index := make(map[string]int64, len(b.s.symbols))
		for i, symbol := range b.s.symbols {
			index[symbol] = int64(i)
		}
		b.enc = func(w *writer, v reflect.Value) error {
			i, ok := index[v.String()]
			if !ok {
				return fmt.Errorf("%q is no symbol of %s", v.String(), b.s)
			}
			w.long(i)
			return nil
		}
	default:
		return false
	}
	return true
}

// integers binds int and long: plain, or as a date, a time of day or a moment.
func (b *binding) integers() bool {
	narrow := b.s.kind == intKind
	put := func(w *writer, n int64) error {
		if narrow && int64(int32(n)) != n {
			return fmt.Errorf("%d is too large for %s", n, b.s)
		}
		w.long(n)
		return nil
	}
	k := b.t.Kind()
	switch {
	case b.t == timeType:
		to, from := moments(b.s.logical)
		if to == nil {
			return false
		}
		b.enc = func(w *writer, v reflect.Value) error {
			n, err := to(*v.Addr().Interface().(*time.Time))
			if err != nil {
				return err
			}
			return put(w, n)
		}
		b.setInt = func(v reflect.Value, n int64) error {
			*v.Addr().Interface().(*time.Time) = from(n)
			return nil
		}
	case b.t == spanType && b.s.logical != "":
		unit := map[string]time.Duration{"time-millis": time.Millisecond, "time-micros": time.Microsecond}[b.s.logical]
		if unit == 0 {
			return false
		}
		limit := int64(24 * time.Hour / unit)
		b.enc = func(w *writer, v reflect.Value) error {
			if d := v.Int(); d < 0 || d >= int64(24*time.Hour) {
				return fmt.Errorf("%v is no time of day", time.Duration(d))
			}
			return put(w, v.Int()/int64(unit))
		}
		b.setInt = func(v reflect.Value, n int64) error {
			if n < 0 || n >= limit {
				return fmt.Errorf("%d is no %s", n, b.s.logical)
			}
			v.SetInt(n * int64(unit))
			return nil
		}
	case k >= reflect.Int && k <= reflect.Int64:
		b.enc = func(w *writer, v reflect.Value) error { return put(w, v.Int()) }
		b.setInt = func(v reflect.Value, n int64) error {
			if v.OverflowInt(n) {
				return fmt.Errorf("%d is too large for %s", n, b.t)
			}
			v.SetInt(n)
			return nil
		}
	case k >= reflect.Uint && k <= reflect.Uint64:
		b.enc = func(w *writer, v reflect.Value) error {
			if v.Uint() > math.MaxInt64 {
				return fmt.Errorf("%d is too large for %s", v.Uint(), b.s)
			}
			return put(w, int64(v.Uint()))
		}
		b.setInt = func(v reflect.Value, n int64) error {
			if n < 0 || v.OverflowUint(uint64(n)) {
				return fmt.Errorf("%d does not fit %s", n, b.t)
			}
			v.SetUint(uint64(n))
			return nil
		}
	default:
		return false
	}
	return true
}

// moments converts between time.Time and the number of a logical type; to drops what is finer than its unit.
func moments(logical string) (to func(time.Time) (int64, error), from func(int64) time.Time) {
	scaled := func(t time.Time, perSecond int64) (int64, error) {
		n := t.Unix()*perSecond + int64(t.Nanosecond())/(1e9/perSecond)
		back := n / perSecond
		if n%perSecond < 0 {
			back--
		}
		if back != t.Unix() { // it has wrapped around
			return 0, fmt.Errorf("%v is too far away for %s", t, logical)
		}
		return n, nil
	}
	wall := func(t time.Time) time.Time {
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	}
	switch logical {
	case "date":
		return func(t time.Time) (int64, error) {
				s := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC).Unix()
				return s / 86400, nil // whole days, so that nothing is rounded
			}, func(n int64) time.Time {
				return time.Unix(n*86400, 0).UTC()
			}
	case "timestamp-millis":
		return func(t time.Time) (int64, error) { return scaled(t, 1e3) }, func(n int64) time.Time { return time.UnixMilli(n).UTC() }
	case "timestamp-micros":
		return func(t time.Time) (int64, error) { return scaled(t, 1e6) }, func(n int64) time.Time { return time.UnixMicro(n).UTC() }
	case "timestamp-nanos":
		return func(t time.Time) (int64, error) { return scaled(t, 1e9) }, func(n int64) time.Time { return time.Unix(0, n).UTC() }
	case "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos":
		to, from := moments(logical[len("local-"):])
		return func(t time.Time) (int64, error) { return to(wall(t)) }, from
	}
	return nil, nil
}

// raw binds bytes and fixed.
func (b *binding) raw() bool {
	fixed := b.s.kind == fixedKind
	put := func(w *writer, raw []byte) error {
		switch {
		case !fixed:
			w.bytes(raw)
			return nil
		case len(raw) != b.s.size:
			return fmt.Errorf("%d bytes for %s", len(raw), b.s)
		}
		w.b = append(w.b, raw...)
		return nil
	}
	switch {
	case b.t == ratType && b.s.logical == "decimal":
		d := newDecimal(b.s)
		b.enc = func(w *writer, v reflect.Value) error {
			raw, err := d.encode(v.Interface().(*big.Rat))
			if err != nil {
				return err
			}
			return put(w, raw)
		}
		b.setBytes = func(r *reader, v reflect.Value, raw []byte) error {
			if err := r.charge(2, len(raw)+len(d.limit.Bits())*8+64); err != nil { // numerator and denominator
				return err
			}
			x, err := d.decode(raw)
			if err == nil {
				v.Set(reflect.ValueOf(x))
			}
			return err
		}
	case b.t == durationType && b.s.logical == "duration":
		b.enc = func(w *writer, v reflect.Value) error {
			d := v.Addr().Interface().(*Duration)
			w.b = binary.LittleEndian.AppendUint32(w.b, d.Months)
			w.b = binary.LittleEndian.AppendUint32(w.b, d.Days)
			w.b = binary.LittleEndian.AppendUint32(w.b, d.Millis)
			return nil
		}
		b.setBytes = func(_ *reader, v reflect.Value, raw []byte) error {
			d := v.Addr().Interface().(*Duration)
			d.Months, d.Days, d.Millis = binary.LittleEndian.Uint32(raw), binary.LittleEndian.Uint32(raw[4:]), binary.LittleEndian.Uint32(raw[8:])
			return nil
		}
	case b.t.Kind() == reflect.Slice && b.t.Elem().Kind() == reflect.Uint8:
		b.enc = func(w *writer, v reflect.Value) error { return put(w, v.Bytes()) }
		b.setBytes = func(r *reader, v reflect.Value, raw []byte) error {
			if err := r.charge(len(raw), 1); err != nil {
				return err
			}
			v.SetBytes(append(make([]byte, 0, len(raw)), raw...))
			return nil
		}
	case fixed && b.t.Kind() == reflect.Array && b.t.Elem().Kind() == reflect.Uint8 && b.t.Len() == b.s.size:
		b.enc = func(w *writer, v reflect.Value) error { return put(w, v.Bytes()) }
		b.setBytes = func(_ *reader, v reflect.Value, raw []byte) error {
			copy(v.Bytes(), raw)
			return nil
		}
	default:
		return false
	}
	return true
}

// text binds string, and the UUID that is one.
func (b *binding) text() bool {
	uuid := b.s.logical == "uuid"
	switch {
	case b.t.Kind() == reflect.String:
		b.enc = func(w *writer, v reflect.Value) error {
			w.long(int64(v.Len()))
			w.b = append(w.b, v.String()...)
			if uuid {
				_, err := serde.UUID().Decode(w.b[len(w.b)-v.Len():])
				return err
			}
			return nil
		}
		b.setBytes = func(r *reader, v reflect.Value, raw []byte) error {
			if uuid {
				if _, err := serde.UUID().Decode(raw); err != nil {
					return err
				}
			}
			if err := r.charge(len(raw), 1); err != nil {
				return err
			}
			v.SetString(string(raw))
			return nil
		}
	case uuid && b.t.ConvertibleTo(uuidType) && b.t.Kind() == reflect.Array:
		b.enc = func(w *writer, v reflect.Value) (err error) {
			w.long(36)
			w.b, err = serde.UUID().Append(w.b, [16]byte(v.Bytes()))
			return err
		}
		b.setBytes = func(_ *reader, v reflect.Value, raw []byte) error {
			id, err := serde.UUID().Decode(raw)
			copy(v.Bytes(), id[:])
			return err
		}
	default:
		return false
	}
	return true
}

// decimal converts numbers that are whole multiples of 10^-scale.
type decimal struct {
	s     *schema
	unit  *big.Int // 10^scale
	limit *big.Int // 10^precision, which the number of units stays below
}

func pow10(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

func newDecimal(s *schema) decimal {
	return decimal{s, pow10(s.scale), pow10(s.precision)}
}

// encode gives the units as two's complement, big endian: as few bytes as it takes, or all of a fixed.
func (d decimal) encode(x *big.Rat) ([]byte, error) {
	if x == nil {
		return nil, fmt.Errorf("a nil *big.Rat; %s has no null, make it a union with null", d.s)
	}
	n, rest := new(big.Int).QuoRem(new(big.Int).Mul(x.Num(), d.unit), x.Denom(), new(big.Int))
	if rest.Sign() != 0 {
		return nil, fmt.Errorf("%s has more than %d digits behind the point; round it before", x.RatString(), d.s.scale)
	}
	if n.CmpAbs(d.limit) >= 0 {
		return nil, fmt.Errorf("%s has more digits than %s", x.FloatString(d.s.scale), d.s)
	}
	magnitude := n
	if n.Sign() < 0 {
		magnitude = new(big.Int).Not(n) // -n-1, whose bits are those of n turned around
	}
	size := magnitude.BitLen()/8 + 1
	if d.s.kind == fixedKind {
		size = d.s.size
	}
	raw := magnitude.FillBytes(make([]byte, size))
	if n.Sign() < 0 {
		for i := range raw {
			raw[i] = ^raw[i]
		}
	}
	return raw, nil
}

func (d decimal) decode(raw []byte) (*big.Rat, error) {
	if len(raw) == 0 {
		return nil, errors.New("a decimal of no bytes")
	}
	negative := raw[0] >= 0x80
	if negative {
		raw = slices.Clone(raw)
		for i := range raw {
			raw[i] = ^raw[i]
		}
	}
	n := new(big.Int).SetBytes(raw)
	if negative {
		n.Not(n)
	}
	if n.CmpAbs(d.limit) >= 0 {
		return nil, fmt.Errorf("a decimal of %d bytes has more digits than %s", len(raw), d.s)
	}
	return new(big.Rat).SetFrac(n, d.unit), nil
}
