package avro

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

type (
	decoder func(r *reader, v reflect.Value) error
	skipper func(r *reader) error
)

// resolver makes decoders from a writer's schema and bindings: the rules of the specification's Schema Resolution, applied once and
// not for each value.
type resolver struct {
	made  map[resolveKey]*resolved
	skips map[*schema]*skipper
	path  []string
}

type resolveKey struct {
	w *schema
	b *binding
}

type resolved struct {
	d    decoder
	err  error
	done bool
}

func resolve(w *schema, b *binding) (decoder, error) {
	return (&resolver{made: map[resolveKey]*resolved{}, skips: map[*schema]*skipper{}}).resolve(w, b)
}

func (rs *resolver) fail(format string, args ...any) error {
	where := ""
	if len(rs.path) > 0 {
		where = "field " + strings.Join(rs.path, ".") + ": "
	}
	return fmt.Errorf(where+format, args...)
}

func (rs *resolver) resolve(w *schema, b *binding) (decoder, error) {
	key := resolveKey{w, b}
	if m := rs.made[key]; m != nil {
		if m.done {
			return m.d, m.err
		}
		return func(r *reader, v reflect.Value) error { return m.d(r, v) }, nil // of a type within itself
	}
	m := &resolved{}
	rs.made[key] = m
	m.d, m.err = rs.make(w, b)
	m.done = true
	if err := m.err; err != nil {
		m.d = func(*reader, reflect.Value) error { return err }
	}
	return m.d, m.err
}

func (rs *resolver) under(name string, w *schema, b *binding) (decoder, error) {
	rs.path = append(rs.path, name)
	d, err := rs.resolve(w, b)
	rs.path = rs.path[:len(rs.path)-1]
	return d, err
}

func (rs *resolver) make(w *schema, b *binding) (decoder, error) {
	switch {
	case b.pointer:
		return rs.pointer(w, b)
	case w.kind == unionKind:
		return rs.writerUnion(w, b)
	case b.s.kind == unionKind:
		return rs.readerUnion(w, b)
	}
	if err := match(w, b.s); err != nil {
		return nil, rs.fail("%w", err)
	}
	switch b.s.kind {
	case recordKind:
		return rs.record(w, b)
	case arrayKind:
		return rs.array(w, b)
	case mapKind:
		return rs.mapping(w, b)
	case enumKind:
		return enum(w, b), nil
	}
	return scalar(w, b), nil
}

// promotions are the types that a writer's type may be read as, besides itself.
var promotions = map[kind][]kind{
	intKind:    {longKind, floatKind, doubleKind},
	longKind:   {floatKind, doubleKind},
	floatKind:  {doubleKind},
	stringKind: {bytesKind},
	bytesKind:  {stringKind},
}

// match says why values of w cannot be read as r, neither of which is a union. What is inside of them is not looked at.
func match(w, r *schema) error {
	if w.kind != r.kind && !slices.Contains(promotions[w.kind], r.kind) {
		return fmt.Errorf("written as %s, which cannot be read as %s", w, r)
	}
	if w.kind.named() && short(w.name) != short(r.name) && !slices.Contains(r.aliases, w.name) {
		return fmt.Errorf("written as %s, which is not %s; give that the alias %q if it was renamed", w, r, w.name)
	}
	if w.size != r.size {
		return fmt.Errorf("written as %s, which cannot be read as %s", w, r)
	}
	// Two logical types would mean different things by the same number.
	if w.logical != "" && r.logical != "" && (w.logical != r.logical || w.precision != r.precision || w.scale != r.scale) {
		return fmt.Errorf("written as %s, which cannot be read as %s; read it as %s and convert", w, r, w)
	}
	return nil
}

// pick chooses the branch of the reader's union that a writer's type is read as: the same type if it is there, else the first that
// matches.
func pick(w, union *schema) int {
	for i, r := range union.branches {
		if w.kind == r.kind && w.name == r.name {
			return i
		}
	}
	return slices.IndexFunc(union.branches, func(r *schema) bool { return match(w, r) == nil })
}

func (rs *resolver) pointer(w *schema, b *binding) (decoder, error) {
	d, err := rs.resolve(w, b.elem)
	t := b.t.Elem()
	size := int(t.Size())
	return func(r *reader, v reflect.Value) error {
		if err := r.charge(1, size); err != nil {
			return err
		}
		p := reflect.New(t)
		v.Set(p)
		return d(r, p.Elem())
	}, err
}

// writerUnion fails only if no branch can be read; a value of one that cannot is an error when it comes.
func (rs *resolver) writerUnion(w *schema, b *binding) (decoder, error) {
	ds := make([]decoder, len(w.branches))
	var errs []error
	for i, branch := range w.branches {
		d, err := rs.resolve(branch, b)
		if err != nil {
			errs = append(errs, err)
			d = func(*reader, reflect.Value) error { return err }
		}
		ds[i] = d
	}
	if len(errs) == len(ds) {
		return nil, errors.Join(errs...)
	}
	return func(r *reader, v reflect.Value) error {
		i, err := r.index(len(ds), "branch")
		if err != nil {
			return err
		}
		return ds[i](r, v)
	}, nil
}

func (rs *resolver) readerUnion(w *schema, b *binding) (decoder, error) {
	i := pick(w, b.s)
	if i < 0 {
		return nil, rs.fail("written as %s, which cannot be read as %s", w, b.s)
	}
	p := b.parts[i]
	if p.b == nil { // null: nil is already there
		return func(*reader, reflect.Value) error { return nil }, nil
	}
	d, err := rs.resolve(w, p.b)
	if len(p.index) == 0 {
		return d, err
	}
	return func(r *reader, v reflect.Value) error { return d(r, p.in(v)) }, err
}

func scalar(w *schema, b *binding) decoder {
	switch b.s.kind {
	case booleanKind:
		return func(r *reader, v reflect.Value) error {
			x, err := r.bool()
			v.SetBool(x)
			return err
		}
	case intKind, longKind:
		get, set := (*reader).long, b.setInt
		if w.kind == intKind {
			get = (*reader).int
		}
		return func(r *reader, v reflect.Value) error {
			n, err := get(r)
			if err != nil {
				return err
			}
			return set(v, n)
		}
	case floatKind, doubleKind:
		return float(w, b.s.kind == floatKind)
	case bytesKind, stringKind, fixedKind:
		set := b.setBytes
		if w.kind == fixedKind {
			return func(r *reader, v reflect.Value) error {
				raw, err := r.take(w.size)
				if err != nil {
					return err
				}
				return set(r, v, raw)
			}
		}
		return func(r *reader, v reflect.Value) error {
			raw, err := r.bytes()
			if err != nil {
				return err
			}
			return set(r, v, raw)
		}
	}
	return func(*reader, reflect.Value) error { return nil } // null
}

// float reads what was written as w. single says that it becomes a float, to which a long is rounded once.
func float(w *schema, single bool) decoder {
	switch w.kind {
	case floatKind:
		return func(r *reader, v reflect.Value) error {
			x, err := r.float()
			v.SetFloat(float64(x))
			return err
		}
	case doubleKind:
		return func(r *reader, v reflect.Value) error {
			x, err := r.double()
			v.SetFloat(x)
			return err
		}
	}
	get := (*reader).long
	if w.kind == intKind {
		get = (*reader).int
	}
	return func(r *reader, v reflect.Value) error {
		n, err := get(r)
		if single {
			v.SetFloat(float64(float32(n)))
		} else {
			v.SetFloat(float64(n))
		}
		return err
	}
}

// enum gives each symbol of the writer the reader's, or its default. One that has neither is an error when it comes.
func enum(w *schema, b *binding) decoder {
	symbols := make([]string, len(w.symbols))
	for i, symbol := range w.symbols {
		switch {
		case slices.Contains(b.s.symbols, symbol):
			symbols[i] = symbol
		case b.s.orphan >= 0:
			symbols[i] = b.s.symbols[b.s.orphan]
		}
	}
	return func(r *reader, v reflect.Value) error {
		i, err := r.index(len(symbols), "symbol")
		if err != nil {
			return err
		}
		if symbols[i] == "" {
			return fmt.Errorf("%q is no symbol of %s, which has no default", w.symbols[i], b.s)
		}
		v.SetString(symbols[i])
		return nil
	}
}

// step is one field of a record: of the writer's, read or skipped, or a default.
type step struct {
	name string
	skip skipper
	part part
	d    decoder
	def  []byte
}

func (rs *resolver) record(w *schema, b *binding) (decoder, error) {
	var steps []step
	var errs []error
	read := make([]bool, len(b.parts))
	from := pair(w, b.s)
	for i, wf := range w.fields {
		j := from[i]
		if j < 0 {
			steps = append(steps, step{name: wf.name, skip: rs.skip(wf.s)})
			continue
		}
		d, err := rs.under(wf.name, wf.s, b.parts[j].b)
		if err != nil {
			errs = append(errs, err)
		}
		read[j] = true
		steps = append(steps, step{name: wf.name, part: b.parts[j], d: d})
	}
	for j, f := range b.s.fields {
		if read[j] {
			continue
		}
		if !f.has {
			errs = append(errs, rs.fail("%s was written without field %q, which has no default; give it one, or the old name as an alias", w, f.name))
			continue
		}
		d, err := rs.under(f.name, f.s, b.parts[j].b)
		if err != nil {
			errs = append(errs, err)
		}
		steps = append(steps, step{name: f.name, part: b.parts[j], d: d, def: f.def})
		if f.def == nil {
			steps[len(steps)-1].def = []byte{} // of a null
		}
	}
	return func(r *reader, v reflect.Value) error {
		if err := r.enter(); err != nil {
			return err
		}
		for i := range steps {
			if err := steps[i].do(r, v); err != nil {
				return within(steps[i].name, err)
			}
		}
		r.leave()
		return nil
	}, errors.Join(errs...)
}

func (s *step) do(r *reader, v reflect.Value) error {
	switch {
	case s.skip != nil:
		return s.skip(r)
	case s.def == nil:
		return s.d(r, s.part.in(v))
	}
	b, off := r.b, r.off
	r.b, r.off = s.def, 0
	err := s.d(r, s.part.in(v))
	r.b, r.off = b, off
	return err
}

// pair gives for each field of the writer the index of the reader's that takes it, or -1. Names go before aliases.
func pair(w, r *schema) []int {
	from := make([]int, len(w.fields))
	for i := range from {
		from[i] = -1
	}
	find := func(name string) int { return slices.IndexFunc(w.fields, func(f field) bool { return f.name == name }) }
	for j, f := range r.fields {
		if i := find(f.name); i >= 0 {
			from[i] = j
			continue
		}
		for _, alias := range f.aliases {
			if i := find(alias); i >= 0 && from[i] < 0 && !slices.ContainsFunc(r.fields, func(f field) bool { return f.name == alias }) {
				from[i] = j
				break
			}
		}
	}
	return from
}

// freeItem is what an item without bytes is charged beyond its memory, so that a count alone cannot keep the decoder busy.
const freeItem = 64

func itemCost(least int, size uintptr) int {
	if least == 0 {
		return int(size) + freeItem
	}
	return int(size)
}

func (rs *resolver) array(w *schema, b *binding) (decoder, error) {
	d, err := rs.under("[]", w.elem, b.elem)
	least := w.elem.least
	cost := itemCost(least, b.t.Elem().Size())
	empty := reflect.MakeSlice(b.t, 0, 0)
	return func(r *reader, v reflect.Value) error {
		if err := r.enter(); err != nil {
			return err
		}
		v.Set(empty) // nil is null
		for i := 0; ; {
			n, end, err := r.block(least)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			if err := r.charge(n, cost); err != nil {
				return err
			}
			v.Grow(n)
			v.SetLen(i + n)
			for n += i; i < n; i++ {
				if err := d(r, v.Index(i)); err != nil {
					return within(strconv.Itoa(i), err)
				}
			}
			if err := r.ended(end); err != nil {
				return err
			}
		}
		r.leave()
		return nil
	}, err
}

func (rs *resolver) mapping(w *schema, b *binding) (decoder, error) {
	d, err := rs.under("[]", w.elem, b.elem)
	least := w.elem.least + 1 // the key's length
	keyType, elemType := b.t.Key(), b.t.Elem()
	cost := 2 * int(keyType.Size()+elemType.Size()+8) // a map is about half full
	return func(r *reader, v reflect.Value) error {
		if err := r.enter(); err != nil {
			return err
		}
		key, elem := reflect.New(keyType).Elem(), reflect.New(elemType).Elem()
		for total := 0; ; {
			n, end, err := r.block(least)
			if err != nil {
				return err
			}
			if err := r.charge(n, cost); err != nil {
				return err
			}
			if total == 0 {
				v.Set(reflect.MakeMapWithSize(b.t, n)) // not nil, which is null
			}
			if n == 0 {
				break
			}
			total += n
			for range n {
				raw, err := r.bytes()
				if err != nil {
					return err
				}
				if err := r.charge(len(raw), 1); err != nil {
					return err
				}
				key.SetString(string(raw))
				elem.SetZero()
				if err := d(r, elem); err != nil {
					return within(key.String(), err)
				}
				v.SetMapIndex(key, elem)
			}
			if v.Len() != total {
				return errors.New("a key of a map comes twice")
			}
			if err := r.ended(end); err != nil {
				return err
			}
		}
		r.leave()
		return nil
	}, err
}
