package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/internal/rules/content"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// compressAt is the size in bytes of a Bundle's JSON from which on all its resources are compressed.
const compressAt = 1_000_000

// Options are what Bundles are made with, apart from their folders.
type Options struct {
	// Name is the first part of the names of Bundles.
	Name      string
	Namespace string
	// Input is the content of the file with options for all folders, or nil if each folder has one of its own.
	Input []byte
	// Labels are added to the Bundles. Those of a fleet.yaml override them.
	Labels map[string]string
	// Compress compresses all resources. ImageScans allows imageScans in a fleet.yaml.
	Compress, ImageScans bool
	// Settings override those of a fleet.yaml.
	Settings Settings
	// Targets are added to the targets of Bundles, unless a fleet.yaml overrides them.
	Targets      []fleet.BundleTarget
	Restrictions []fleet.BundleTargetRestriction
	// Concurrency is the number of folders that are read concurrently.
	Concurrency int
	Credentials Credentials
	Charts      Charts
	// Progress receives the progress of downloads.
	Progress io.Writer
}

// Bundle is a Bundle with the ImageScans beside it.
type Bundle struct {
	*fleet.Bundle

	// Folder is the folder that it was made of.
	Folder     string
	ImageScans []*unstructured.Unstructured
	Warnings   []Warning
}

// Pack returns the Bundles of folders, in the same order. A folder without resources makes none. The first error stops
// it.
func Pack(ctx context.Context, folders []Folder, options Options) ([]*Bundle, error) {
	p := &packer{Options: options}
	p.left.Store(maxTotal)
	bundles := make([]*Bundle, len(folders))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, options.Concurrency))
	// If several folders have errors, that of the last one is reported, as by Rancher Fleet.
	for i, folder := range slices.Backward(folders) {
		group.Go(func() (err error) {
			if err := ctx.Err(); err != nil {
				return err
			}
			bundles[i], err = p.pack(ctx, folder)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(bundles, func(b *Bundle) bool { return b == nil }), nil
}

type packer struct {
	Options

	// left is the number of bytes that the files of the other folders may have.
	left atomic.Int64
}

// pack returns the Bundle of a folder, or nil if it has no resources.
func (p *packer) pack(ctx context.Context, folder Folder) (*Bundle, error) {
	text, file, err := p.readOptions(folder)
	if err != nil {
		return nil, err
	}
	bundle, err := p.make(ctx, folder, text, file)
	if err != nil {
		return nil, fmt.Errorf("failed to process bundle: %w", err)
	}
	return bundle, nil
}

// readOptions returns the text and the path of the file with a folder's options. The text is empty if there is none.
func (p *packer) readOptions(folder Folder) (text []byte, file string, err error) {
	if p.Input != nil {
		return p.Input, "standard input", nil
	}
	name := folder.Options
	if name == "" {
		name = optionsOf(folder.Path)
	}
	if name == "" {
		return []byte("{}"), filepath.Join(folder.Path, optionsFile), nil
	}
	file = filepath.Join(folder.Path, name)
	if folder.Options == "" {
		if err := checkOptions(folder, name, file); err != nil {
			return nil, file, err
		}
	}
	text, err = readFile(file, maxOptions)
	if err != nil {
		return nil, file, fmt.Errorf("failed to open file %q: %w", name, err)
	}
	return text, file, nil
}

// make returns the Bundle of a folder with these options, or nil if it has no resources. file is the name of the file
// with the options, for warnings.
func (p *packer) make(ctx context.Context, folder Folder, text []byte, file string) (*Bundle, error) {
	doc, err := parseOptions(text)
	if err != nil {
		return nil, err
	}
	if len(doc.ImageScans) > 0 && !p.ImageScans {
		return nil, errors.New("imagescan is disabled; remove imagescans from your config files, or enable imagescan")
	}
	warnings := warningsOf(text, doc, folder.Path).in(file)
	id := p.id(folder)
	scans, err := imageScans(id, doc.ImageScans)
	if err != nil {
		return nil, err
	}
	spec := &doc.BundleSpec
	read, err := p.read(ctx, folder, spec)
	if err != nil {
		return nil, explainOutside(err, file)
	}
	if len(read.files) == 0 {
		return nil, nil
	}
	if read.lostValues {
		warnings = append(warnings, Warning{File: file, Text: "a values file is called values.yaml, so the file values.yaml of the chart does not become a resource and its defaults have no effect; rename the values file"})
	}
	p.Settings.apply(spec)
	p.addTargets(spec, doc.OverrideTargets)
	name := id
	if doc.Name != "" {
		name = doc.Name
	}
	bundle := &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: p.labels(doc.Labels), Annotations: doc.Annotations},
		Spec:       *spec,
	}
	addResources(bundle, read.files, p.Compress)
	bundle.Namespace, bundle.APIVersion, bundle.Kind = p.Namespace, fleet.SchemeGroupVersion.String(), "Bundle"
	return &Bundle{Bundle: bundle, Folder: folder.Path, ImageScans: scans, Warnings: append(warnings, read.warnings...)}, nil
}

// read merges the values files of a folder into the spec, and returns its other files.
func (p *packer) read(ctx context.Context, folder Folder, spec *fleet.BundleSpec) (contents, error) {
	auth, err := p.Credentials.of(folder.Path)
	if err != nil {
		return contents{}, err
	}
	if auth.Root, err = rootOf(folder); err != nil {
		return contents{}, err
	}
	excluded := exclusions(folder.Options, valuesFiles(spec))
	err = mergeValues(folder.Path, auth.Root, spec)
	var read contents
	if err == nil {
		read, err = p.load(ctx, folder, auth, spec, excluded)
	}
	if err != nil {
		return contents{}, fmt.Errorf("failed reading resources for %q: %w", folder.Path, err)
	}
	return read, nil
}

// id returns the name of a folder's Bundle, unless the fleet.yaml has another.
func (p *packer) id(folder Folder) string {
	id := path.Clean(p.Name + "/" + filepath.ToSlash(folder.Path))
	if folder.Options != "" {
		options := filepath.ToSlash(folder.Options)
		id = path.Clean(id + "/" + strings.TrimSuffix(options, path.Ext(options)))
	}
	return names.HelmReleaseName(id)
}

// labels returns the labels of a Bundle whose fleet.yaml has own labels.
func (p *packer) labels(own map[string]string) map[string]string {
	if len(p.Labels)+len(own) == 0 {
		return nil
	}
	labels := make(map[string]string, len(p.Labels)+len(own))
	maps.Copy(labels, p.Labels)
	maps.Copy(labels, own)
	return labels
}

// addTargets adds the targets that select clusters.
func (p *packer) addTargets(spec *fleet.BundleSpec, override []fleet.BundleTargetRestriction) {
	if override == nil {
		spec.Targets = append(spec.Targets, p.Targets...)
		spec.TargetRestrictions = append(spec.TargetRestrictions, p.Restrictions...)
	}
	for _, one := range override {
		spec.Targets = append(spec.Targets, fleet.BundleTarget{
			Name: one.Name, ClusterName: one.ClusterName, ClusterSelector: one.ClusterSelector,
			ClusterGroup: one.ClusterGroup, ClusterGroupSelector: one.ClusterGroupSelector,
		})
		spec.TargetRestrictions = append(spec.TargetRestrictions, one)
	}
	if len(spec.Targets) == 0 {
		spec.Targets = []fleet.BundleTarget{{Name: "default", ClusterGroup: "default"}}
	}
	if p.Settings.TargetNamespace == "" {
		return
	}
	for i := range spec.Targets {
		spec.Targets[i].TargetNamespace = p.Settings.TargetNamespace
	}
}

// addResources adds the files. It compresses all of them if the Bundle would be large otherwise.
func addResources(bundle *fleet.Bundle, files []file, compress bool) {
	encode := func(as func(string, []byte) fleet.BundleResource) {
		bundle.Spec.Resources = make([]fleet.BundleResource, 0, len(files))
		for _, file := range files {
			bundle.Spec.Resources = append(bundle.Spec.Resources, as(file.name, file.data))
		}
	}
	if compress {
		encode(content.Compress)
		return
	}
	encode(content.Encode)
	if Size(bundle) >= compressAt {
		encode(content.Compress)
	}
}
