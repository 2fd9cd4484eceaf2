package topology

import "reflect"

const zeroValue = "topology: the zero value is no stream, table or group of a topology, and nil no Builder; start with NewBuilder and From, " +
	"and go on with what the operators return"

// must stops what is called on the zero value of a stream, table or group, or on a nil Builder. No Build could report that, since no
// Builder knows of it, and it would be a nil dereference somewhere in here.
func (b *Builder) must() *Builder {
	if b == nil {
		panic(here() + ": " + zeroValue) // no Builder knows of it, so no Build could return it as an error
	}
	return b
}

// builder is the Builder of a stream or table that a verb is called on.
func builder[K, V any](n *node[K, V]) *Builder {
	if n == nil {
		return (*Builder)(nil).must()
	}
	return n.b.must()
}

// belongs says whether the other stream or table of a verb can be used, and else reports why not.
func belongs[K, V any](b *Builder, n *node[K, V], verb, what string) bool {
	switch {
	case n == nil || n.b == nil:
		b.fail("%s: the %s is the zero value, which no operator has returned; give what From, TableFrom or an operator returned", verb, what)
	case n.b != b:
		b.fail("%s: the %s belongs to another Builder; build one topology with one Builder", verb, what)
	default:
		return true
	}
	return false
}

// isNil says whether v is nil, or an interface around a nil pointer, map or function, whose methods would panic when records come.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Func:
		return r.IsNil()
	default:
		return false
	}
}
