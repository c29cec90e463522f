package deploy

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
)

// releaseLimit bounds a decoded release. A Secret holds at most 1 MiB, compressed.
const releaseLimit = 64 << 20

// crdsFolder is the folder of a chart whose objects are installed before all others, and never changed by Helm.
const crdsFolder = "crds/"

// errNoRelease means that a Secret holds no release of Helm.
var errNoRelease = errors.New("the Secret holds no Helm release")

// encodeRelease writes a release the way Helm 3 stores it: JSON, gzip, base64. The chart's CRDs are left out: they
// are installed once, from the bundle, nobody looks for them here, and ten megabytes of them would be more than a
// Secret holds.
func encodeRelease(r *release.Release) ([]byte, error) {
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

// withoutCRDs is the release with a chart that has no files in the folder for CRDs.
func withoutCRDs(r *release.Release) *release.Release {
	if r.Chart == nil {
		return r
	}
	slim, stored := *r, *r.Chart
	stored.Files = slices.DeleteFunc(slices.Clone(stored.Files), func(f *chart.File) bool { return strings.HasPrefix(f.Name, crdsFolder) })
	slim.Chart = &stored
	return &slim
}

// decodeRelease reads what encodeRelease, or any Helm since 3.0, wrote.
func decodeRelease(secret *corev1.Secret) (*release.Release, error) {
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
