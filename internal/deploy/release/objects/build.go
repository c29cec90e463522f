package objects

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/postrender"
	"helm.sh/helm/v3/pkg/release"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/fleet-hub/fleet/internal/deploy/manifest"
)

// Build implements kube.Interface. It parses a manifest into objects that can be sent. Of an object that a manifest has more
// than once, the last one counts.
func (c *Client) Build(reader io.Reader, _ bool) (kube.ResourceList, error) {
	text, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("reading a manifest: %w", err)
	}
	objects, err := manifest.Parse(text)
	if err != nil {
		return nil, err
	}
	isNew, isOld := c.recognise(text)
	list, places := make(kube.ResourceList, 0, len(objects)), map[manifest.Ref]int{}
	c.leftOut(nil)
	for _, object := range objects {
		info, found, err := c.find(object, isOld && !isNew)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		if isNew {
			info.Source = fromBundle
		}
		if at, repeated := places[refOf(info)]; repeated {
			list[at] = info
			continue
		}
		places[refOf(info)] = len(list)
		list = append(list, info)
	}
	if isNew && len(c.Adopt) > 0 {
		return list, inParallel(list, c.checkOwner)
	}
	return list, nil
}

// find returns the info of an object. Of a former revision, it does not find an object that no request can find: one without a
// name, which another program has stored (generateName), or one of a kind that is no longer served.
func (c *Client) find(object *unstructured.Unstructured, former bool) (info *resource.Info, found bool, err error) {
	if former && manifest.CheckIdentity(object) != nil {
		return nil, false, nil //nolint:nilerr // such an object stays
	}
	info, err = c.info(object)
	if former && meta.IsNoMatchError(err) {
		if info, err = c.served(object, err); meta.IsNoMatchError(err) {
			c.leftOut(object)
			return nil, false, nil
		}
	}
	return info, err == nil, err
}

// leftOut records an object of a kind that the API server does not know; nil clears the records.
func (c *Client) leftOut(object *unstructured.Unstructured) {
	var unserved []manifest.Ref
	if object != nil {
		unserved = []manifest.Ref{{GroupVersionKind: object.GroupVersionKind(), Namespace: c.namespaceOfUnserved(object), Name: object.GetName()}}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if object == nil {
		c.unserved = nil
	}
	c.unserved = append(c.unserved, unserved...)
}

// namespaceOfUnserved returns the namespace of an object of a version that the API server does not serve. If it serves no other
// version either, the kind counts as namespaced, as most are.
func (c *Client) namespaceOfUnserved(object *unstructured.Unstructured) string {
	if served, err := c.identity.Served(object.GroupVersionKind()); err == nil {
		if namespaced, err := c.identity.Namespaced(served); err == nil && !namespaced {
			return ""
		}
	}
	return cmp.Or(object.GetNamespace(), c.release.Namespace)
}

// Refs returns the objects of a parsed manifest, including those that Build left out, because they have to be
// reported as missing.
func (c *Client) Refs(list kube.ResourceList) []manifest.Ref {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(RefsOf(list), c.unserved...)
}

// noted is a post-renderer that records the manifest that is about to be installed.
type noted struct {
	postrender.PostRenderer
	client *Client
}

// Before returns a post-renderer for an installation or upgrade with this client.
func (c *Client) Before(renderer postrender.PostRenderer) postrender.PostRenderer {
	return noted{renderer, c}
}

// Run implements Helm's post-renderer.
func (n noted) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	out, err := n.PostRenderer.Run(rendered)
	if err == nil {
		n.client.willBe(out.String())
	}
	return out, err
}

func (c *Client) willBe(manifest string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rendered = manifest
}

// isRendered reports whether the objects of the release are rendered.
func (c *Client) isRendered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rendered != ""
}

// recognise reports whether a manifest is the one to install, and whether it belongs to a former revision. Before
// a manifest was rendered, every manifest is a former one: Helm uninstalls, with the documents in another order. Only an
// installation begins with new ones, the CRDs of the chart.
func (c *Client) recognise(manifest []byte) (isNew, isOld bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rendered == "" {
		return false, !c.Installs
	}
	for _, old := range c.Old {
		isOld = isOld || string(manifest) == old
	}
	isOld = isOld || slices.Contains(c.Former, string(manifest))
	return string(manifest) == c.rendered, isOld
}

// checkOwner returns an error for an existing object that belongs neither to this release nor to one whose objects
// it may take over.
func (c *Client) checkOwner(info *resource.Info) error {
	live, err := c.helper(info).Get(info.Namespace, info.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", describeInfo(info), err)
	}
	owner, known := ownerOf(live)
	if known && (owner == c.release || slices.Contains(c.Adopt, owner)) {
		return nil
	}
	return fmt.Errorf("%s exists and cannot be imported into release %s: it belongs to another owner; set helm.takeOwnership to take it over",
		describeInfo(info), c.release)
}

// Result returns the result of the operation that made a revision.
func (c *Client) Result(made *release.Release) (*manifest.Revision, error) {
	list, err := c.Build(strings.NewReader(made.Manifest), false)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest of release %s: %w", c.release, err)
	}
	out := &manifest.Revision{Number: made.Version, Refs: c.Refs(list), Wanted: objectsIn(list)}
	if before, known := c.Old[made.Version-1]; known {
		former, err := c.Build(strings.NewReader(before), false)
		if err != nil {
			return nil, fmt.Errorf("reading the manifest of the previous revision: %w", err)
		}
		out.Former = RefsOf(former)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out.Live = c.live
	return out, nil
}

func RefsOf(list kube.ResourceList) []manifest.Ref {
	var refs []manifest.Ref
	for _, info := range list {
		refs = append(refs, refOf(info))
	}
	return refs
}

func (c *Client) info(object *unstructured.Unstructured) (*resource.Info, error) {
	gvk := object.GroupVersionKind()
	if err := manifest.CheckIdentity(object); err != nil {
		return nil, err
	}
	mapping, err := c.identity.Mapping(gvk)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", gvk.Kind, object.GetName(), err)
	}
	client, err := c.identity.Client(mapping.GroupVersionKind.GroupVersion())
	if err != nil {
		return nil, err
	}
	switch {
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		object.SetNamespace("")
	case object.GetNamespace() == "":
		object.SetNamespace(c.release.Namespace)
	}
	return &resource.Info{
		Client: client, Mapping: mapping, Namespace: object.GetNamespace(), Name: object.GetName(), Object: object,
	}, nil
}

// served is info for an object of a former revision whose version is no longer served. The object still exists, in the other
// versions of its kind. It returns the error of info if the operation deletes no such objects.
func (c *Client) served(object *unstructured.Unstructured, unknown error) (*resource.Info, error) {
	if !c.Removes {
		return nil, unknown
	}
	gvk, err := c.identity.Served(object.GroupVersionKind())
	if err != nil {
		if !meta.IsNoMatchError(err) {
			c.setDeletionError(err)
		}
		return nil, err
	}
	object.SetGroupVersionKind(gvk)
	return c.info(object)
}

// ObjectsOf returns the objects of a manifest, with their namespaces filled in.
func (c *Client) ObjectsOf(text string) (manifest.Objects, error) {
	list, err := c.Build(strings.NewReader(text), false)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest of release %s: %w", c.release, err)
	}
	return objectsIn(list), nil
}

func objectsIn(list kube.ResourceList) manifest.Objects {
	found := manifest.Objects{}
	for _, info := range list {
		if object, ok := info.Object.(*unstructured.Unstructured); ok {
			found[refOf(info)] = object
		}
	}
	return found
}
