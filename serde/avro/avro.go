package avro

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/headrace/headrace/serde"
)

// Serde encodes values of T by an Avro schema; [New] and [Of] make one. It is immutable and safe for concurrent use.
type Serde[T any] struct {
	name        string
	err         error
	canonical   string
	fingerprint uint64
	limits      limits

	enc      func(w *writer, v reflect.Value) error
	readOnly error              // why Append refuses
	header   []byte             // of single objects, else nil
	dec      decoder            // of plain bytes
	known    map[uint64]decoder // of single objects, by the writer's fingerprint
	scratch  sync.Pool          // of *scratch[T]
}

// scratch is what a call needs on the heap, T among it since reflection takes a pointer to it.
type scratch[T any] struct {
	v   T
	ref reflect.Value // v
	w   writer
	r   reader
}

var _ serde.Serde[struct{}] = (*Serde[struct{}])(nil)

// Duration is the logical type duration: three numbers that do not add up, since months and days have no fixed length.
type Duration struct{ Months, Days, Millis uint32 }

// Option changes what [New] and [Of] make.
type Option func(*config)

type config struct {
	writers []string
	single  bool
	limits  limits
}

// WrittenBy names the schema that the bytes given to Decode were written with, where it is not the one given to [New]. Values are
// resolved from the one to the other as the package's documentation says.
//
// Plain bytes do not say what wrote them, so that they have one writer's schema, and a Serde with another one than its own only reads:
// Append is an error, since Decode would not understand what it wrote. Use such a Serde for a topic that is read, and one without this
// option for stores, repartition topics and topics that are written.
//
// With [SingleObject] the option may be given for each schema that ever wrote, and Append writes.
func WrittenBy(schema string) Option {
	return func(c *config) { c.writers = append(c.writers, schema) }
}

// SingleObject writes and reads Avro's single-object encoding: two bytes c3 01, the fingerprint (CRC-64-AVRO) of the writer's schema as
// eight bytes, and the value. Bytes are read that were written with the serde's own schema or one given by [WrittenBy]; others are an
// error that names the fingerprint.
func SingleObject() Option { return func(c *config) { c.single = true } }

// MaxDepth bounds how deep records, arrays and maps may lie within each other, both in bytes that are decoded and in values that are
// encoded. The default is 256.
func MaxDepth(levels int) Option { return func(c *config) { c.limits.depth = levels } }

// MaxSize bounds the memory, in bytes, that one decoded value may take: its strings, slices, maps and what its pointers point to. It is an
// estimate, which a map or a slice in many blocks may exceed several times. The default is 64 MiB. It does not bound what Append writes.
func MaxSize(bytes int) Option { return func(c *config) { c.limits.size = bytes } }

// New makes the serde of T for the schema, which is Avro's JSON text. Errors say what is wrong in it, or name each field of T that does
// not fit with its Go type and its Avro type.
func New[T any](schema string, opts ...Option) (*Serde[T], error) {
	s := Of[T](schema, opts...)
	return s, s.err
}

// Of is [New] for a variable of a package or an argument, where an error has no place to go: Err returns it, and so do Append and Decode.
func Of[T any](schema string, opts ...Option) *Serde[T] {
	s := &Serde[T]{name: reflect.TypeFor[T]().String()}
	if err := s.init(schema, opts); err != nil {
		s.err = fmt.Errorf("avro: Serde[%s]: %w", s.name, err)
	}
	s.scratch.New = func() any {
		x := new(scratch[T])
		x.ref = reflect.ValueOf(&x.v).Elem()
		return x
	}
	return s
}

func (s *Serde[T]) init(schema string, opts []Option) error {
	c := config{limits: limits{depth: 256, size: 64 << 20}}
	for _, o := range opts {
		o(&c)
	}
	s.limits = c.limits
	switch {
	case c.limits.depth < 1:
		return fmt.Errorf("MaxDepth(%d): want at least 1", c.limits.depth)
	case c.limits.size < 1:
		return fmt.Errorf("MaxSize(%d): want at least 1", c.limits.size)
	case len(c.writers) > 1 && !c.single:
		return fmt.Errorf("WrittenBy %d times without SingleObject; plain bytes do not say which schema wrote them, give one", len(c.writers))
	}
	own, err := parse(schema, true)
	if err != nil {
		return err
	}
	s.canonical, s.fingerprint = own.canonical, own.fingerprint
	b, err := bind(own.schema, reflect.TypeFor[T]())
	if err != nil {
		return err
	}
	s.enc = b.enc
	if s.dec, err = resolve(own.schema, b); err != nil {
		return err
	}
	if c.single {
		s.header = binary.LittleEndian.AppendUint64([]byte{0xc3, 0x01}, own.fingerprint)
		s.known = map[uint64]decoder{own.fingerprint: s.dec}
	}
	for _, text := range c.writers {
		w, err := parse(text, false)
		if err != nil {
			return fmt.Errorf("WrittenBy: %w", err)
		}
		d, err := resolve(w.schema, b)
		if err != nil {
			return fmt.Errorf("WrittenBy: %w", err)
		}
		if s.dec = d; c.single {
			s.known[w.fingerprint] = d
		} else if w.canonical != own.canonical {
			s.readOnly = errors.New("this serde only reads, since it decodes what another schema wrote; use one without WrittenBy, or SingleObject")
		}
	}
	return nil
}

// Err returns what is wrong with the schema, T or the options, nil if nothing is.
func (s *Serde[T]) Err() error { return s.err }

// Schema returns the schema's Parsing Canonical Form, which has neither defaults nor logical types.
func (s *Serde[T]) Schema() string { return s.canonical }

// Fingerprint returns the CRC-64-AVRO of [Serde.Schema].
func (s *Serde[T]) Fingerprint() uint64 { return s.fingerprint }

// Append implements [serde.Serde]. Equal values have equal bytes: maps are written in the order of their keys. It allocates for maps,
// decimals and what dst lacks.
func (s *Serde[T]) Append(dst []byte, v T) ([]byte, error) {
	switch {
	case s.err != nil:
		return dst, s.err
	case s.readOnly != nil:
		return dst, fmt.Errorf("avro: Serde[%s]: encode: %w", s.name, s.readOnly)
	}
	x := s.scratch.Get().(*scratch[T])
	x.v = v
	x.w = writer{b: append(dst, s.header...), depth: s.limits.depth}
	err := s.enc(&x.w, x.ref)
	dst = x.w.b
	s.release(x)
	if err != nil {
		return dst, fmt.Errorf("avro: Serde[%s]: encode: %w", s.name, err)
	}
	return dst, nil
}

// Decode implements [serde.Serde]. The value shares no memory with b. It allocates what the value consists of and nothing else, except
// for maps and decimals. Bytes behind the value are an error.
func (s *Serde[T]) Decode(b []byte) (v T, err error) {
	if s.err != nil {
		return v, s.err
	}
	d := s.dec
	value := b
	if s.header != nil {
		if d, value, err = s.object(b); err != nil {
			return v, fmt.Errorf("avro: Serde[%s]: decode %d bytes: %w", s.name, len(b), err)
		}
	}
	x := s.scratch.Get().(*scratch[T])
	x.r = reader{b: value, depth: s.limits.depth, left: s.limits.size}
	err = d(&x.r, x.ref)
	off := x.r.off + len(b) - len(value)
	if err == nil && off < len(b) {
		err = errors.New("the value has ended; another schema wrote it")
	}
	if err == nil {
		v = x.v
	}
	s.release(x)
	if err != nil {
		return v, fmt.Errorf("avro: Serde[%s]: decode %d bytes: at byte %d: %w", s.name, len(b), off, err)
	}
	return v, nil
}

// release gives x back, without what belongs to the caller.
func (s *Serde[T]) release(x *scratch[T]) {
	var zero T
	x.v, x.w, x.r = zero, writer{}, reader{}
	s.scratch.Put(x)
}

// object takes the header of a single object off.
func (s *Serde[T]) object(b []byte) (decoder, []byte, error) {
	if len(b) < 10 || b[0] != 0xc3 || b[1] != 0x01 {
		return nil, nil, fmt.Errorf("no single object, which begins with c3 01 and 8 bytes of fingerprint; it begins with %x", b[:min(len(b), 2)])
	}
	print := binary.LittleEndian.Uint64(b[2:])
	d := s.known[print]
	if d == nil {
		return nil, nil, fmt.Errorf("written with a schema whose fingerprint is %016x, which is none of %d known; give it by WrittenBy", print, len(s.known))
	}
	return d, b[10:], nil
}
