package avro

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/linkedin/goavro/v2"
)

type kind uint8

const (
	nullKind kind = iota
	booleanKind
	intKind
	longKind
	floatKind
	doubleKind
	bytesKind
	stringKind
	enumKind
	fixedKind
	arrayKind
	mapKind
	recordKind
	unionKind
)

var kindNames = [...]string{
	"null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed", "array", "map", "record", "union",
}

func (k kind) named() bool { return k == enumKind || k == fixedKind || k == recordKind }

// schema is one type of a schema. Named types that are referred to again are the same *schema, so that the graph may have cycles.
type schema struct {
	kind     kind
	name     string   // full name, of a named type
	aliases  []string // full names
	fields   []field  // of a record
	symbols  []string // of an enum
	orphan   int      // index of the enum's default symbol, or -1
	elem     *schema  // of an array or a map
	branches []*schema
	size     int // of a fixed

	logical          string // "" where there is none, or none that the specification knows
	precision, scale int    // of a decimal

	least   int // the fewest bytes that a value takes
	visited bool
}

type field struct {
	name    string
	aliases []string
	s       *schema
	raw     any    // the default as JSON
	def     []byte // the default, encoded
	has     bool   // has a default
}

// parsed is a schema that goavro has accepted.
type parsed struct {
	*schema
	canonical   string
	fingerprint uint64
}

// parse reads a schema; of a writer's, the defaults do not matter. Names and structure are judged by goavro, from the canonical form: of goavro's own canonical form, and of its reading of
// defaults and logical types, too little holds (a namespace in a namespace, a default for a timestamp).
func parse(text string, defaults bool) (p parsed, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return p, fmt.Errorf("schema: not JSON: %w", err)
	}
	if dec.More() {
		return p, fmt.Errorf("schema: more than one JSON value; the second begins at byte %d", dec.InputOffset())
	}
	ps := &parser{named: map[string]*schema{}}
	if p.schema, err = ps.parse(v, ""); err != nil {
		return p, fmt.Errorf("schema: %w", err)
	}
	p.canonical = string(p.appendCanonical(nil, map[string]bool{}))
	codec, err := accept(p.canonical)
	if err != nil {
		return p, fmt.Errorf("schema: %w", err)
	}
	p.fingerprint = codec.Rabin
	for _, s := range ps.records {
		for i := range s.fields {
			f := &s.fields[i]
			if !f.has || !defaults {
				continue
			}
			if f.def, err = appendJSON(nil, f.s, f.raw, 0); err != nil {
				return p, fmt.Errorf("schema: %s, field %q: default: %w", s, f.name, err)
			}
		}
	}
	p.measure()
	return p, nil
}

func accept(canonical string) (codec *goavro.Codec, err error) {
	defer func() {
		if r := recover(); r != nil { // goavro's, on a schema that it does not expect
			err = fmt.Errorf("goavro: panic: %v", r)
		}
	}()
	if codec, err = goavro.NewCodec(canonical); err != nil {
		return nil, err
	}
	if got := codec.CanonicalSchema(); got != canonical {
		return nil, fmt.Errorf("goavro takes %s for %s", canonical, got)
	}
	return codec, nil
}

type parser struct {
	named   map[string]*schema
	records []*schema
}

func (p *parser) parse(v any, ns string) (*schema, error) {
	switch v := v.(type) {
	case string:
		return p.byName(v, ns)
	case []any:
		return p.union(v, ns)
	case map[string]any:
		return p.object(v, ns)
	}
	return nil, fmt.Errorf("want a name, an object or an array where a type stands, got %v", v)
}

func (p *parser) byName(name, ns string) (*schema, error) {
	if k := slices.Index(kindNames[:enumKind], name); k >= 0 {
		return &schema{kind: kind(k)}, nil
	}
	if s := p.named[full(name, ns)]; s != nil {
		return s, nil
	}
	if s := p.named[name]; s != nil {
		return s, nil
	}
	if slices.Contains(kindNames[enumKind:unionKind], name) {
		return nil, fmt.Errorf("type %q stands where a whole type should: write {\"type\": {\"type\": %q, …}}", name, name)
	}
	return nil, fmt.Errorf("unknown type %q; a named type is defined before it is used", name)
}

// full gives the full name of name where ns encloses it.
func full(name, ns string) string {
	if ns == "" || strings.Contains(name, ".") {
		return name
	}
	return ns + "." + name
}

// short gives what is behind the namespace.
func short(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

func (p *parser) union(branches []any, ns string) (*schema, error) {
	s := &schema{kind: unionKind}
	for i, v := range branches {
		b, err := p.parse(v, ns)
		if err != nil {
			return nil, err
		}
		if b.kind == unionKind {
			return nil, fmt.Errorf("branch %d of a union is a union", i)
		}
		for _, other := range s.branches {
			if other.kind == b.kind && other.name == b.name {
				return nil, fmt.Errorf("a union has %s twice", b)
			}
		}
		s.branches = append(s.branches, b)
	}
	if len(s.branches) == 0 {
		return nil, errors.New("a union has no branches")
	}
	return s, nil
}

func (p *parser) object(m map[string]any, ns string) (s *schema, err error) {
	name, ok := m["type"].(string)
	if !ok {
		return p.parse(m["type"], ns)
	}
	if name == "error" { // a record of a protocol
		name = "record"
	}
	k := kind(max(0, slices.Index(kindNames[:unionKind], name)))
	switch {
	case k.named():
		return p.namedType(k, m, ns)
	case k == arrayKind, k == mapKind:
		s = &schema{kind: k}
		s.elem, err = p.parse(m[map[kind]string{arrayKind: "items", mapKind: "values"}[k]], ns)
	default:
		if s, err = p.byName(name, ns); err == nil && s.kind < enumKind {
			err = s.setLogical(m)
		}
	}
	return s, err
}

func (p *parser) namedType(k kind, m map[string]any, ns string) (*schema, error) {
	name, _ := m["name"].(string)
	if name == "" {
		return nil, fmt.Errorf("a type %s has no name", kindNames[k])
	}
	if own, ok := m["namespace"].(string); ok {
		ns = own
	}
	s := &schema{kind: k, name: full(name, ns), orphan: -1}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		ns = name[:i]
	}
	if p.named[s.name] != nil {
		return nil, fmt.Errorf("%s: the name is defined twice", s)
	}
	p.named[s.name] = s
	aliases, err := texts(m["aliases"])
	if err != nil {
		return nil, fmt.Errorf("%s: aliases: %w", s, err)
	}
	for _, a := range aliases {
		s.aliases = append(s.aliases, full(a, ns))
	}
	switch k {
	case enumKind:
		if s.symbols, err = texts(m["symbols"]); err != nil {
			return nil, fmt.Errorf("%s: symbols: %w", s, err)
		}
		if sorted := slices.Sorted(slices.Values(s.symbols)); len(slices.Compact(sorted)) != len(s.symbols) {
			return nil, fmt.Errorf("%s: a symbol stands there twice", s)
		}
		if def, ok := m["default"]; ok {
			symbol, _ := def.(string)
			if s.orphan = slices.Index(s.symbols, symbol); s.orphan < 0 {
				return nil, fmt.Errorf("%s: default %v is none of its symbols", s, def)
			}
		}
	case fixedKind:
		if s.size, err = integer(m["size"]); err != nil || s.size < 1 || s.size >= 1_000_000 {
			return nil, fmt.Errorf("%s: size %v; want 1 to 999999", s, m["size"])
		}
		return s, s.setLogical(m)
	case recordKind:
		p.records = append(p.records, s)
		return s, p.fields(s, m, ns)
	}
	return s, nil
}

func (p *parser) fields(s *schema, m map[string]any, ns string) error {
	list, ok := m["fields"].([]any)
	if !ok {
		return fmt.Errorf("%s: no array \"fields\"", s)
	}
	for i, v := range list {
		m, _ := v.(map[string]any)
		f := field{}
		if f.name, _ = m["name"].(string); f.name == "" {
			return fmt.Errorf("%s: field %d has no name", s, i)
		}
		var err error
		if f.s, err = p.parse(m["type"], ns); err != nil {
			return fmt.Errorf("%s, field %q: %w", s, f.name, err)
		}
		if f.aliases, err = texts(m["aliases"]); err != nil {
			return fmt.Errorf("%s, field %q: aliases: %w", s, f.name, err)
		}
		f.raw, f.has = m["default"]
		s.fields = append(s.fields, f)
	}
	return nil
}

func texts(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, fmt.Errorf("want an array of strings, got %v", v)
	}
	var out []string
	for _, v := range list {
		t, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("want strings, got %v", v)
		}
		out = append(out, t)
	}
	return out, nil
}

func integer(v any) (int, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, fmt.Errorf("want a number, got %v", v)
	}
	return strconv.Atoi(n.String())
}

// logicalKinds are the types that each logical type stands on.
var logicalKinds = map[string][]kind{
	"date": {intKind}, "time-millis": {intKind}, "time-micros": {longKind},
	"timestamp-millis": {longKind}, "timestamp-micros": {longKind}, "timestamp-nanos": {longKind},
	"local-timestamp-millis": {longKind}, "local-timestamp-micros": {longKind}, "local-timestamp-nanos": {longKind},
	"decimal": {bytesKind, fixedKind}, "uuid": {stringKind, fixedKind}, "duration": {fixedKind},
}

const maxPrecision = 10_000 // so that a schema cannot make 10^precision take long

// setLogical takes the logical type of m. One that is unknown or not valid is ignored, as the specification says.
func (s *schema) setLogical(m map[string]any) error {
	name, _ := m["logicalType"].(string)
	if !slices.Contains(logicalKinds[name], s.kind) {
		return nil
	}
	switch {
	case name == "duration" && s.size != 12, name == "uuid" && s.kind == fixedKind && s.size != 16:
		return nil
	case name == "decimal":
		precision, err := integer(m["precision"])
		scale := 0
		if v, ok := m["scale"]; ok && err == nil {
			scale, err = integer(v)
		}
		if err != nil || precision < 1 || scale < 0 || scale > precision {
			return nil
		}
		if precision > maxPrecision {
			return fmt.Errorf("decimal: precision %d; at most %d is supported", precision, maxPrecision)
		}
		if s.kind == fixedKind && new(big.Int).Sub(pow10(precision), big.NewInt(1)).BitLen() > 8*s.size-1 {
			return nil
		}
		s.precision, s.scale = precision, scale
	}
	s.logical = name
	return nil
}

// String names the type for an error.
func (s *schema) String() string {
	switch s.logical {
	case "":
		return s.base()
	case "decimal":
		return fmt.Sprintf("%s (decimal %d,%d)", s.base(), s.precision, s.scale)
	}
	return s.base() + " (" + s.logical + ")"
}

func (s *schema) base() string {
	switch s.kind {
	case fixedKind:
		return fmt.Sprintf("fixed %s of %d bytes", s.name, s.size)
	case enumKind, recordKind:
		return kindNames[s.kind] + " " + s.name
	case arrayKind:
		return "array of " + s.elem.String()
	case mapKind:
		return "map of " + s.elem.String()
	case unionKind:
		var names []string
		for _, b := range s.branches {
			names = append(names, b.String())
		}
		return "union [" + strings.Join(names, ", ") + "]"
	}
	return kindNames[s.kind]
}

// appendCanonical writes the Parsing Canonical Form.
func (s *schema) appendCanonical(b []byte, seen map[string]bool) []byte {
	list := func(n int, each func(i int)) {
		b = append(b, '[')
		for i := range n {
			if i > 0 {
				b = append(b, ',')
			}
			each(i)
		}
		b = append(b, ']')
	}
	if s.kind.named() {
		if seen[s.name] {
			return appendQuoted(b, s.name)
		}
		seen[s.name] = true
		b = appendQuoted(append(b, `{"name":`...), s.name)
		b = append(b, `,"type":"`+kindNames[s.kind]+`"`...)
	}
	switch s.kind {
	case enumKind:
		b = append(b, `,"symbols":`...)
		list(len(s.symbols), func(i int) { b = appendQuoted(b, s.symbols[i]) })
	case fixedKind:
		b = strconv.AppendInt(append(b, `,"size":`...), int64(s.size), 10)
	case recordKind:
		b = append(b, `,"fields":`...)
		list(len(s.fields), func(i int) {
			b = appendQuoted(append(b, `{"name":`...), s.fields[i].name)
			b = append(s.fields[i].s.appendCanonical(append(b, `,"type":`...), seen), '}')
		})
	case arrayKind:
		b = s.elem.appendCanonical(append(b, `{"type":"array","items":`...), seen)
	case mapKind:
		b = s.elem.appendCanonical(append(b, `{"type":"map","values":`...), seen)
	case unionKind:
		list(len(s.branches), func(i int) { b = s.branches[i].appendCanonical(b, seen) })
		return b
	default:
		return appendQuoted(b, kindNames[s.kind])
	}
	return append(b, '}')
}

// appendQuoted writes a name. goavro refuses those that would need an escape.
func appendQuoted(b []byte, name string) []byte {
	q, _ := json.Marshal(name) // a string always has a JSON form
	return append(b, bytes.TrimSpace(q)...)
}

// measure sets least in s and below. Inside a cycle it is too small, which is allowed.
func (s *schema) measure() int {
	if s.visited {
		return s.least
	}
	s.visited = true
	n := 0
	switch s.kind {
	case nullKind:
	case floatKind:
		n = 4
	case doubleKind:
		n = 8
	case fixedKind:
		n = s.size
	case arrayKind, mapKind:
		s.elem.measure()
		n = 1
	case recordKind:
		for _, f := range s.fields {
			n = min(n+f.s.measure(), 1<<30)
		}
	case unionKind:
		n = s.branches[0].measure()
		for _, b := range s.branches[1:] {
			n = min(n, b.measure())
		}
		n++
	default:
		n = 1
	}
	s.least = n
	return n
}
