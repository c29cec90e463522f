package release

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
)

// releaseLimit limits the size of a decompressed release in bytes. A Secret holds at most 1 MiB, compressed.
const releaseLimit = 64 << 20

// errNoRelease means that a Secret contains no Helm release.
var errNoRelease = errors.New("the Secret contains no Helm release")

// Encode encodes a release as Helm 3 does: JSON, gzip, base64. It omits the chart's CRDs. They are
// installed once, from the bundle, and not read from the release. Large CRDs would exceed the size of a Secret.
func Encode(r *release.Release) ([]byte, error) {
	text, err := json.Marshal(withoutCRDs(r))
	if err != nil {
		return nil, fmt.Errorf("encoding release %s/%s: %w", r.Namespace, r.Name, err)
	}
	var compressed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compressing release %s/%s: %w", r.Namespace, r.Name, err)
	}
	// Writing to memory cannot fail.
	_, _ = writer.Write(text)
	_ = writer.Close()
	return base64.StdEncoding.AppendEncode(nil, compressed.Bytes()), nil
}

// withoutCRDs returns a copy of the release whose chart has no files in the folder for CRDs.
func withoutCRDs(r *release.Release) *release.Release {
	if r.Chart == nil {
		return r
	}
	stripped, stored := *r, *r.Chart
	stored.Files = slices.DeleteFunc(slices.Clone(stored.Files), func(f *chart.File) bool { return strings.HasPrefix(f.Name, manifest.CRDsFolder) })
	stripped.Chart = &stored
	return &stripped
}

// Decode decodes a release that Encode or Helm 3 has encoded.
func Decode(secret *corev1.Secret) (*release.Release, error) {
	text, err := base64.StdEncoding.AppendDecode(nil, secret.Data[releaseDataKey])
	if err != nil || len(text) == 0 {
		return nil, errNoRelease
	}
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		if text, err = unzip(text); err != nil {
			return nil, err
		}
	}
	var r release.Release
	if err := json.Unmarshal(text, &r); err != nil || r.Info == nil || r.Name == "" || r.Version < 1 {
		return nil, errNoRelease
	}
	r.Labels = secret.Labels
	return &r, nil
}

func unzip(compressed []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, errNoRelease
	}
	text, err := io.ReadAll(io.LimitReader(reader, releaseLimit+1))
	if err != nil || len(text) > releaseLimit {
		return nil, errNoRelease
	}
	return text, nil
}
