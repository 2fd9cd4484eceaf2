package avro

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// binding is a type of the schema together with the Go type that holds its values. It can encode; a decoder is made of it and of the
// schema that the bytes were written with.
type binding struct {
	s   *schema
	t   reflect.Type
	enc func(w *writer, v reflect.Value) error

	// How a value gets into a Go variable, for the kinds that have one.
	setInt   func(v reflect.Value, n int64) error               // int, long
	setBytes func(r *reader, v reflect.Value, raw []byte) error // bytes, string, fixed

	pointer bool     // t is a pointer, and elem what it points to
	elem    *binding // of an array or a map, or behind a pointer
	parts   []part   // fields of a record, branches of a union, in the schema's order
}

// part is a field of a record or a branch of a union. index is where in a struct it is, nil for the value itself. b is nil for the
// branch null.
type part struct {
	index []int
	b     *binding
}

func (p part) in(v reflect.Value) reflect.Value {
	switch len(p.index) {
	case 0:
		return v
	case 1:
		return v.Field(p.index[0])
	}
	return v.FieldByIndex(p.index)
}

type bindKey struct {
	s *schema
	t reflect.Type
}

// binder makes bindings and collects what does not fit.
type binder struct {
	made map[bindKey]*binding
	path []string // where in the schema
	at   string   // which Go field holds it
	errs []error
}

func bind(s *schema, t reflect.Type) (*binding, error) {
	b := &binder{made: map[bindKey]*binding{}, at: t.String()}
	made := b.bind(s, t)
	return made, errors.Join(b.errs...)
}

func (b *binder) fail(format string, args ...any) {
	where := b.at
	if len(b.path) > 0 {
		where = fmt.Sprintf("field %s (Go %s)", strings.Join(b.path, "."), b.at)
	}
	b.errs = append(b.errs, fmt.Errorf("%s: "+format, append([]any{where}, args...)...))
}

// under binds a part that has a name.
func (b *binder) under(name, at string, s *schema, t reflect.Type) *binding {
	outer := b.at
	b.path, b.at = append(b.path, name), at
	made := b.bind(s, t)
	b.path, b.at = b.path[:len(b.path)-1], outer
	return made
}

func (b *binder) bind(s *schema, t reflect.Type) *binding {
	key := bindKey{s, t}
	if made := b.made[key]; made != nil {
		return made
	}
	made := &binding{s: s, t: t}
	b.made[key] = made
	switch {
	case s.kind == unionKind:
		b.union(made)
	case made.leaf():
	case t.Kind() == reflect.Pointer && t.Elem().Kind() != reflect.Pointer:
		made.pointer, made.elem = true, b.bind(s, t.Elem())
		made.enc = func(w *writer, v reflect.Value) error {
			if v.IsNil() {
				return fmt.Errorf("a nil %s; %s has no null, make it a union with null", t, s)
			}
			return made.elem.enc(w, v.Elem())
		}
	case s.kind == recordKind && t.Kind() == reflect.Struct:
		b.record(made)
	case s.kind == arrayKind && t.Kind() == reflect.Slice:
		made.elem = b.under("[]", b.at, s.elem, t.Elem())
		made.enc = made.encodeArray
	case s.kind == mapKind && t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		made.elem = b.under("[]", b.at, s.elem, t.Elem())
		made.enc = made.encodeMap
	default:
		b.fail("Go type %s cannot hold Avro type %s; use %s", t, s, wanted(s))
	}
	return made
}

// wanted says which Go types hold s.
func wanted(s *schema) string {
	switch s.logical {
	case "date", "timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos":
		return "time.Time or an integer type"
	case "time-millis", "time-micros":
		return "time.Duration or an integer type"
	case "decimal":
		return "*big.Rat"
	case "duration":
		return "avro.Duration"
	case "uuid":
		return "[16]byte or string"
	}
	switch s.kind {
	case nullKind:
		return "struct{}"
	case booleanKind:
		return "bool"
	case intKind:
		return "int32 or another integer type"
	case longKind:
		return "int64 or another integer type"
	case floatKind:
		return "float32"
	case doubleKind:
		return "float64"
	case bytesKind:
		return "[]byte"
	case fixedKind:
		return fmt.Sprintf("[%d]byte or []byte", s.size)
	case arrayKind:
		return "a slice"
	case mapKind:
		return "a map with strings as keys"
	case recordKind:
		return "a struct"
	}
	return "string" // string, enum
}

// nilable says whether nil of t can stand for null.
func nilable(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map
}

func (b *binder) union(u *binding) {
	s, t := u.s, u.t
	null, values := -1, 0
	for i, branch := range s.branches {
		if branch.kind == nullKind {
			null = i
		} else {
			values++
		}
	}
	u.parts = make([]part, len(s.branches))
	switch {
	case values > 1 && t.Kind() == reflect.Struct:
		b.choice(u)
	case values > 1 && t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct:
		u.parts, u.pointer, u.elem = nil, true, b.bind(s, t.Elem())
		u.enc = func(w *writer, v reflect.Value) error {
			if v.IsNil() {
				return fmt.Errorf("a nil %s; the null of a union is a struct without a branch", t)
			}
			return u.elem.enc(w, v.Elem())
		}
	case values > 1:
		b.fail("Go type %s cannot hold Avro type %s; use a struct with a pointer for each branch, tagged with the branch's name", t, s)
	case values == 0: // [null]
		if t.Kind() != reflect.Struct || t.NumField() > 0 {
			b.fail("Go type %s cannot hold Avro type %s; use struct{}", t, s)
		}
		u.enc = func(w *writer, _ reflect.Value) error { w.long(0); return nil }
	case null < 0: // a union of one
		u.parts[0].b = b.bind(s.branches[0], t)
		u.enc = func(w *writer, v reflect.Value) error { w.long(0); return u.parts[0].b.enc(w, v) }
	case !nilable(t):
		b.fail("Go type %s has no nil for the null of Avro type %s; use *%s", t, s, t)
	default:
		value := 1 - null
		u.parts[value].b = b.bind(s.branches[value], t)
		u.enc = func(w *writer, v reflect.Value) error {
			if v.IsNil() {
				w.long(int64(null))
				return nil
			}
			w.long(int64(value))
			return u.parts[value].b.enc(w, v)
		}
	}
}

// choice binds a union of several types to a struct with a nilable field for each.
func (b *binder) choice(u *binding) {
	fields := b.structFields(u.t)
	null := -1
	for i, branch := range u.s.branches {
		if branch.kind == nullKind {
			null = i
			continue
		}
		name := branch.name
		if name == "" {
			name = kindNames[branch.kind]
		}
		f, ok := fields[name]
		if !ok {
			name = short(name)
			f, ok = fields[name]
		}
		delete(fields, name)
		switch {
		case !ok:
			b.fail("Go type %s has no field for the branch %s of a union; add one with the tag `avro:%q`", u.t, branch, name)
		case !nilable(f.Type):
			b.fail("Go type %s, field %s: %s has no nil; a branch of a union needs a pointer, use *%s", u.t, f.Name, f.Type, f.Type)
		default:
			u.parts[i] = part{f.Index, b.under(name, u.t.String()+"."+f.Name, branch, f.Type)}
		}
	}
	b.unused(u, fields, "branch")
	u.enc = func(w *writer, v reflect.Value) error {
		chosen := -1
		for i, p := range u.parts {
			if p.b == nil || p.in(v).IsNil() {
				continue
			}
			if chosen >= 0 {
				return fmt.Errorf("a %s with more than one branch: %s and %s", u.t, u.s.branches[chosen], u.s.branches[i])
			}
			chosen = i
		}
		if chosen < 0 {
			if null < 0 {
				return fmt.Errorf("a %s without a branch; %s has no null", u.t, u.s)
			}
			w.long(int64(null))
			return nil
		}
		w.long(int64(chosen))
		return u.parts[chosen].b.enc(w, u.parts[chosen].in(v))
	}
}

func (b *binder) record(r *binding) {
	fields := b.structFields(r.t)
	r.parts = make([]part, len(r.s.fields))
	for i, sf := range r.s.fields {
		f, ok := fields[sf.name]
		if !ok {
			b.fail("Go type %s has no field for field %q (%s) of %s; add one with the tag `avro:%q`, or read with a schema without it and give WrittenBy the other",
				r.t, sf.name, sf.s, r.s, sf.name)
			continue
		}
		delete(fields, sf.name)
		r.parts[i] = part{f.Index, b.under(sf.name, r.t.String()+"."+f.Name, sf.s, f.Type)}
	}
	b.unused(r, fields, "field")
	r.enc = func(w *writer, v reflect.Value) error {
		if err := w.enter(); err != nil {
			return err
		}
		for i := range r.parts {
			p := &r.parts[i]
			if err := p.b.enc(w, p.in(v)); err != nil {
				return within(r.s.fields[i].name, err)
			}
		}
		w.leave()
		return nil
	}
}

// unused reports the Go fields whose values would be lost.
func (b *binder) unused(made *binding, fields map[string]reflect.StructField, what string) {
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.fail("%s has no %s %q for the Go field %s.%s; name another in its tag, or leave it out with `avro:\"-\"`",
			made.s, what, name, made.t, fields[name].Name)
	}
}

// structFields gives the fields of a struct by their names in the schema. Those of embedded structs count as its own.
func (b *binder) structFields(t reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	var add func(t reflect.Type, index []int)
	add = func(u reflect.Type, index []int) {
		for f := range u.Fields() {
			name, tagged := f.Tag.Lookup("avro")
			f.Index = append(slices.Clone(index), f.Index...)
			switch {
			case name == "-":
				continue
			case f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct && f.Type != timeType:
				add(f.Type, f.Index)
				continue
			case !f.IsExported():
				if tagged {
					b.fail("Go field %s.%s has a tag and is not exported", u, f.Name)
				}
				continue
			case !tagged:
				name = f.Name
			}
			if name == "" || strings.ContainsAny(name, ", ") {
				b.fail("Go field %s.%s: tag `avro:%q` is not a name", u, f.Name, name)
			}
			if other, taken := fields[name]; taken {
				b.fail("Go fields %s and %s of %s both have the name %q", other.Name, f.Name, t, name)
			}
			fields[name] = f
		}
	}
	add(t, nil)
	return fields
}

func (b *binding) encodeArray(w *writer, v reflect.Value) error {
	if err := w.enter(); err != nil {
		return err
	}
	n := v.Len()
	if n > 0 {
		w.long(int64(n))
	}
	for i := range n {
		if err := b.elem.enc(w, v.Index(i)); err != nil {
			return within(fmt.Sprint(i), err)
		}
	}
	w.long(0)
	w.leave()
	return nil
}

// encodeMap sorts by key, so that equal values have equal bytes.
func (b *binding) encodeMap(w *writer, v reflect.Value) error {
	if err := w.enter(); err != nil {
		return err
	}
	if n := v.Len(); n > 0 {
		w.long(int64(n))
		keys := reflect.MakeSlice(reflect.SliceOf(b.t.Key()), n, n)
		it := v.MapRange()
		for i := 0; i < n && it.Next(); i++ {
			keys.Index(i).SetIterKey(it)
		}
		sortStrings(keys)
		elem := reflect.New(b.t.Elem()).Elem() // addressable, which what is in a map is not
		for i := range n {
			k := keys.Index(i)
			w.long(int64(k.Len()))
			w.b = append(w.b, k.String()...)
			elem.Set(v.MapIndex(k))
			if err := b.elem.enc(w, elem); err != nil {
				return within(k.String(), err)
			}
		}
	}
	w.long(0)
	w.leave()
	return nil
}

func sortStrings(keys reflect.Value) {
	if s, ok := keys.Interface().([]string); ok {
		slices.Sort(s)
		return
	}
	swap := reflect.Swapper(keys.Interface())
	for i := 1; i < keys.Len(); i++ { // named string types are rare as keys, and such maps small
		for j := i; j > 0 && keys.Index(j).String() < keys.Index(j-1).String(); j-- {
			swap(j, j-1)
		}
	}
}
