package serde

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"sync"
)

// JSON encodes T with encoding/json and its struct tags.
//
// The bytes of a value are stable: fields in the order of the struct, map keys
// sorted, no white space, and <, > and & as they are. Methods MarshalJSON and
// UnmarshalJSON with pointer receivers are used in both directions.
//
// Decode ignores fields that T does not have, and refuses anything but white
// space behind the value. The JSON text null decodes to the zero T; it is a
// value, not Kafka's null.
func JSON[T any]() Serde[T] {
	s := &jsonSerde[T]{name: reflect.TypeFor[T]().String()}
	s.writers.New = func() any {
		w := new(jsonWriter)
		w.enc = json.NewEncoder(w)
		w.enc.SetEscapeHTML(false)
		return w
	}
	return s
}

type jsonSerde[T any] struct {
	name    string
	writers sync.Pool // of *jsonWriter
}

// jsonWriter appends what its encoder writes to dst.
type jsonWriter struct {
	dst []byte
	enc *json.Encoder
}

var _ io.Writer = (*jsonWriter)(nil)

func (w *jsonWriter) Write(b []byte) (int, error) {
	w.dst = append(w.dst, b...)
	return len(b), nil
}

func (s *jsonSerde[T]) Append(dst []byte, v T) ([]byte, error) {
	w := s.writers.Get().(*jsonWriter)
	w.dst = dst
	err := w.enc.Encode(&v)
	dst, w.dst = w.dst, nil
	s.writers.Put(w)
	if err != nil {
		return dst, fmt.Errorf("serde: JSON[%s]: encode: %w", s.name, err)
	}
	return dst[:len(dst)-1], nil // Encode ends with a new line
}

func (s *jsonSerde[T]) Decode(b []byte) (T, error) {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		var zero T // without the fields that were read before the error
		return zero, fmt.Errorf("serde: JSON[%s]: decode %d bytes: %w", s.name, len(b), err)
	}
	return v, nil
}
