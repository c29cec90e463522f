package content

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleet-hub/fleet/e2e/framework/recorded"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Reading any stored bytes returns a manifest or an error. A manifest that is written again reads the same.
func FuzzRead(f *testing.F) {
	for _, c := range recorded.Objects[fleet.Content](f, "contents") {
		f.Add(c.Content, c.SHA256Sum)
	}
	f.Add([]byte(nil), "")
	f.Fuzz(func(t *testing.T, data []byte, sum string) {
		m, err := Read(&fleet.Content{Content: data, SHA256Sum: sum})
		if err != nil {
			return
		}
		again, err := Read(Object(m))
		if err != nil {
			t.Fatalf("its own object: %v", err)
		}
		if diff := cmp.Diff(m.Bytes(), again.Bytes()); diff != "" {
			t.Errorf("written again (-want +got):\n%s", diff)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"resources":[{"name":"cm.yaml","content":"a: \u003cb\u003e\n"}]}` + "\n"))
	f.Add([]byte(`{}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(m.Bytes())
		if err != nil {
			t.Fatalf("its own bytes: %v", err)
		}
		if again.ID() != m.ID() {
			t.Errorf("written again it is %s, was %s", again.ID(), m.ID())
		}
	})
}

func FuzzData(f *testing.F) {
	f.Add("a: b", "")
	f.Add("AP8=", "base64")
	f.Add(Compress("f", []byte("text")).Content, "base64+gz")
	f.Fuzz(func(t *testing.T, text, encoding string) {
		data, err := Data(fleet.BundleResource{Content: text, Encoding: encoding}, MaxSize)
		known := encoding == EncodingPlain || encoding == EncodingBase64 || encoding == EncodingGzip
		if errors.Is(err, ErrUnknownEncoding) == known {
			t.Errorf("encoding %q: %v", encoding, err)
		}
		if err == nil && len(data) > MaxSize {
			t.Errorf("%d bytes are more than the limit", len(data))
		}
	})
}

func FuzzEncode(f *testing.F) {
	f.Add([]byte("text"))
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, r := range []fleet.BundleResource{Encode("f", data), Compress("f", data)} {
			got, err := Data(r, MaxSize)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, data) {
				t.Errorf("%q came back as %q", data, got)
			}
		}
	})
}

func FuzzSplitDeploymentID(f *testing.F) {
	f.Add("s-1:ab")
	f.Add(":ab")
	f.Add("s-1")
	f.Fuzz(func(t *testing.T, id string) {
		manifestID, optionsHash := SplitDeploymentID(id)
		if id != manifestID && id != manifestID+":"+optionsHash {
			t.Errorf("%q was split into %q and %q", id, manifestID, optionsHash)
		}
	})
}
