package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
	"github.com/fleet-hub/fleet/internal/yamlbound"
)

// renderedFile is the file with Helm's output, as a resource of the kustomization.
const renderedFile = "fleet-manifests.yaml"

// Limits of one download: how long a server may keep the agent waiting for an answer, and how long and how large the whole may be.
const (
	answerTime   = time.Minute
	downloadTime = 5 * time.Minute
	downloadSize = bundleLimit
)

// errDownloadTooLarge means that a server sends more than a bundle may have.
var errDownloadTooLarge = fmt.Errorf("a remote resource has more than %d MiB", downloadSize>>20)

// LimitDownloads limits the downloads of remote resources by kustomize: otherwise a server could keep a worker of the agent
// forever, or fill its memory. Kustomize downloads with the default transport of the process, so the command calls it before all
// else. Each download gets a connection of its own, with a deadline.
func LimitDownloads() { limitDownloads(answerTime, downloadTime, downloadSize) }

func limitDownloads(answer, whole time.Duration, size int) {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return
	}
	transport.ResponseHeaderTimeout = answer
	transport.DisableKeepAlives, transport.DisableCompression = true, true // a compressed answer could grow
	dial := (&net.Dialer{Timeout: answer}).DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		deadline := schemas.deadline(time.Now().Add(whole)) //nolint:forbidigo // the clock of the connection
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &download{Conn: conn, left: size}, conn.SetDeadline(deadline)
	}
}

// download is a connection that receives a limited number of bytes.
type download struct {
	net.Conn

	left int
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if d.left -= n; d.left < 0 {
		return 0, errDownloadTooLarge
	}
	return n, err
}

// kustomize builds the bundle's kustomization over the objects that Helm rendered. It reads the bundle's files, in memory, and
// the remote resources that the kustomization names. Plugins are disabled.
func kustomize(p *Package, rendered []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	disk := filesys.MakeFsInMemory()
	for _, f := range p.Files {
		if err := checkYAML(f); err != nil {
			return nil, fmt.Errorf("kustomize: %w", err)
		}
		if err := disk.WriteFile("/"+f.Name, f.Data); err != nil {
			return nil, fmt.Errorf("kustomize: %w", err)
		}
	}
	dir := "/" + dirOf(p.Style.Kustomization)
	if len(rendered) > 0 {
		if err := buildOnRendered(disk, "/"+p.Style.Kustomization, rendered); err != nil {
			return nil, fmt.Errorf("kustomize: %w", err)
		}
	}
	text, err := build(disk, dir)
	if err != nil {
		return nil, fmt.Errorf("kustomize: %w", err)
	}
	return manifest.Parse(text)
}

// build returns the objects of the kustomization in a directory. Kustomize panics for an OpenAPI schema that it cannot read.
func build(disk filesys.FileSystem, dir string) (text []byte, err error) {
	customSchema, err := checkExpansion(disk, path.Clean(dir))
	if err != nil {
		return nil, err
	}
	defer schemas.enter(customSchema)()
	defer func() {
		if cause := recover(); cause != nil {
			text, err = nil, fmt.Errorf("panic: %v", cause)
		}
	}()
	limitCopies()
	options := krusty.MakeDefaultOptions()
	options.LoadRestrictions = types.LoadRestrictionsRootOnly
	options.PluginConfig = types.DisabledPluginConfig()
	resources, err := krusty.MakeKustomizer(options).Run(disk, dir)
	if err != nil {
		return nil, err
	}
	return resources.AsYaml()
}

// checkYAML returns an error for a file whose YAML is too large to parse. Files that are not YAML are allowed: a
// generator may use them as they are.
func checkYAML(f file) error {
	documents, err := manifest.SplitDocuments(f.Data)
	if err != nil {
		return nil //nolint:nilerr // kustomize returns the error, if it reads the file
	}
	budget := yamlbound.ForManifests()
	for _, document := range documents {
		if err := budget.Spend(document); errors.Is(err, yamlbound.ErrTooLarge) {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// buildOnRendered adds Helm's output as the first resource of the kustomization.
func buildOnRendered(disk filesys.FileSystem, name string, rendered []*unstructured.Unstructured) error {
	for _, object := range rendered {
		_ = checkMetadata(object) // kustomize would make the text "null" of null, and accepts other values
	}
	text, err := manifest.Format(rendered)
	if err != nil {
		return err
	}
	if err := disk.WriteFile(path.Join(path.Dir(name), renderedFile), text); err != nil {
		return err
	}
	old, err := disk.ReadFile(name)
	if err != nil {
		return err
	}
	var kustomization map[string]any
	if err := yaml.Unmarshal(old, &kustomization); err != nil {
		return fmt.Errorf("YAML parse error in %s: %w", path.Base(name), err)
	}
	if kustomization == nil {
		kustomization = map[string]any{}
	}
	listed, _ := kustomization["resources"].([]any)
	kustomization["resources"] = append([]any{renderedFile}, listed...)
	changed, err := yaml.Marshal(kustomization)
	if err != nil {
		return err
	}
	return disk.WriteFile(name, changed)
}
