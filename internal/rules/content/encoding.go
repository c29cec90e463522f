package content

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Encodings of a resource.
const (
	// EncodingPlain is plain text.
	EncodingPlain = ""
	// EncodingBase64 is padded base64 with the standard alphabet.
	EncodingBase64 = "base64"
	// EncodingGzip is base64 of gzip-compressed bytes.
	EncodingGzip = "base64+gz"
)

// MaxSize is the maximum size in bytes of a decompressed manifest or resource: 64 MiB. Much less fits into an object,
// so anything larger was not made from a Bundle.
const MaxSize = 64 << 20

var (
	// ErrTooLarge means that the decompressed data would exceed MaxSize.
	ErrTooLarge = fmt.Errorf("decompressed content is larger than %d MiB", MaxSize>>20)
	// ErrUnknownEncoding means that a resource has an unsupported encoding.
	ErrUnknownEncoding = errors.New(`unknown encoding (use "", base64 or base64+gz)`)
)

// Data returns the bytes of a resource of at most limit bytes. Errors name the resource and wrap ErrUnknownEncoding,
// ErrTooLarge, or the decoding error.
func Data(r fleet.BundleResource, limit int) ([]byte, error) {
	data, err := decode(r.Content, r.Encoding, limit)
	if err == nil && len(data) > limit {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("decoding resource %q: %w", r.Name, err)
	}
	return data, nil
}

// Encode returns the resource for a file. Text stays plain. Other files are compressed, because a Bundle is JSON and
// JSON holds only text.
func Encode(name string, data []byte) fleet.BundleResource {
	if utf8.Valid(data) {
		return fleet.BundleResource{Name: name, Content: string(data)}
	}
	return Compress(name, data)
}

// Compress returns the compressed resource for a file, whether it is text or not.
func Compress(name string, data []byte) fleet.BundleResource {
	return fleet.BundleResource{
		Name:     name,
		Content:  base64.StdEncoding.EncodeToString(compress(data)),
		Encoding: EncodingGzip,
	}
}

func decode(text, encoding string, limit int) ([]byte, error) {
	switch encoding {
	case EncodingPlain:
		return []byte(text), nil
	case EncodingBase64:
		return base64.StdEncoding.DecodeString(text)
	case EncodingGzip:
		compressed, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, err
		}
		return decompress(compressed, limit)
	default:
		return nil, fmt.Errorf("%w: %q", ErrUnknownEncoding, encoding)
	}
}

// compress writes no time and no name, so that equal data gives equal bytes.
func compress(data []byte) []byte {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	// Writing to memory cannot fail.
	_, _ = writer.Write(data)
	_ = writer.Close()
	return out.Bytes()
}

func decompress(compressed []byte, limit int) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(reader, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, ErrTooLarge
	}
	return data, nil
}
