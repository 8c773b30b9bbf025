// Package pack is the form of what fanfare stores of its own work in Redis: CBOR (RFC 8949).
//
// A struct is a map, with a short number in place of a field's name if the field has the tag keyasint,
// and otherwise with the name that its tag for JSON gives it. JSON that is inside, such as a payload, is
// stored as it is, unescaped. A reader skips fields that it does not know, and leaves out what is missing.
package pack

import "github.com/fxamacker/cbor/v2"

var (
	encoding = must(cbor.EncOptions{Sort: cbor.SortBytewiseLexical}.EncMode())
	// What was written is read again: a name that is no UTF-8 is no reason to refuse a record.
	decoding = must(cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Encode writes a value. It panics only for a type that cannot be stored, such as a channel.
func Encode(v any) []byte { return must(encoding.Marshal(v)) }

// Decode reads a value that Encode has written. Bytes behind it are an error.
func Decode(b []byte, v any) error { return decoding.Unmarshal(b, v) }

// DecodeFirst reads the first of several values, and returns what is behind it.
func DecodeFirst(b []byte, v any) (rest []byte, err error) { return decoding.UnmarshalFirst(b, v) }
