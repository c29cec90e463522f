// Package agentrelease installs the embedded chart fleet-agent as `helm install` does.
//
//	jointext.Text, values of the user ─► Values ─► Install (Helm release fleet-agent) or Manifest (YAML)
package agentrelease

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/fleet-hub/fleet/charts"
	"github.com/fleet-hub/fleet/internal/agentchart"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// chartName is the folder of the chart. Its releases have the same name.
const chartName = names.Agent

// requestTimeout limits each request of Helm.
const requestTimeout = 30 * time.Second

// Values returns the chart's values for a join text. The TLS mode is strict if the text has a CA. Values of the user come
// before. If they choose an image or a registry, the image of the text is left out.
func Values(text jointext.Text, user map[string]any) (map[string]any, error) {
	document, err := text.Values().Encode()
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(document, &values); err != nil {
		return nil, fmt.Errorf("encoding the values of token %s failed", text.TokenName)
	}
	if text.CA != "" {
		values["agentTLSMode"] = config.TLSModeStrict
	}
	if text.ClientID != "" {
		values["clientID"] = text.ClientID
	}
	if text.Image != "" && !choosesImage(user) {
		values["image"] = image(text.Image)
	}
	if text.AgentNamespace != "" { // it is also the agent's scope
		values["internal"] = map[string]any{"systemNamespace": text.AgentNamespace}
		values["fleetAgent"] = map[string]any{"scope": text.AgentNamespace}
	}
	return chartutil.CoalesceTables(runtime.DeepCopyJSON(user), values), nil
}

// OwnValues returns the values that come from the join text. The user cannot set them.
func OwnValues() []string {
	return []string{"apiServerURL", "apiServerCA", "clusterNamespace", "token", "tokenName", "systemRegistrationNamespace", "clientID", "internal"}
}

// WithEarlier returns values of the user, and those of an earlier release that they do not replace. It leaves out what the earlier
// join text has set, or may have set: the TLS mode and the image.
func WithEarlier(user, earlier map[string]any) map[string]any {
	earlier = runtime.DeepCopyJSON(earlier)
	for _, own := range append(OwnValues(), "agentTLSMode") {
		delete(earlier, own)
	}
	if image, found := earlier["image"].(map[string]any); found {
		delete(image, "repository")
		delete(image, "tag")
	}
	return chartutil.CoalesceTables(runtime.DeepCopyJSON(user), earlier)
}

// Differ reports whether values of the user change those of an earlier release.
func Differ(user, earlier map[string]any) bool {
	merged := chartutil.CoalesceTables(runtime.DeepCopyJSON(user), runtime.DeepCopyJSON(earlier))
	before, errBefore := json.Marshal(earlier) // numbers of flags and of releases have other types
	after, errAfter := json.Marshal(merged)
	return errBefore != nil || errAfter != nil || !bytes.Equal(before, after)
}

// choosesImage reports whether values of the user name an image or a registry. Other values, such as pull Secrets, are in the
// same maps.
func choosesImage(user map[string]any) bool {
	for _, path := range []string{"image.repository", "image.tag", "global.cattle.systemDefaultRegistry"} {
		if _, err := chartutil.Values(user).PathValue(path); err == nil {
			return true
		}
	}
	return false
}

// image returns the chart's values for an image. A digest is also a tag for the chart, which joins both with a colon.
func image(name string) map[string]any {
	slash, colon := strings.LastIndex(name, "/"), strings.LastIndex(name, ":")
	if colon <= slash {
		return map[string]any{"repository": name, "tag": "latest"}
	}
	return map[string]any{"repository": name[:colon], "tag": name[colon+1:]}
}

// Namespace returns the namespace of the agent: that of the Cluster, or the hub's system namespace.
func Namespace(text jointext.Text) string {
	return cmp.Or(text.AgentNamespace, text.SystemNamespace, names.SystemNamespace)
}

// ValuesFile returns values as a file for `helm install --values`.
func ValuesFile(values map[string]any) ([]byte, error) {
	document, err := yaml.Marshal(values)
	if err != nil {
		return nil, errors.New("encoding the values failed")
	}
	return document, nil
}

// Manifest returns one YAML document list for `kubectl apply`: the namespace and the objects of the chart, with the
// bootstrap Secret.
func Manifest(namespace string, values map[string]any) ([]byte, error) {
	loaded, err := load()
	if err != nil {
		return nil, err
	}
	install := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	install.ReleaseName, install.Namespace = chartName, namespace
	install.DryRun, install.ClientOnly, install.Replace = true, true, true
	rendered, err := install.Run(loaded, values)
	if err != nil {
		return nil, fmt.Errorf("rendering chart %s: %w", chartName, err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", namespace)
	out.WriteString(rendered.Manifest)
	return out.Bytes(), nil
}

// Print prints the manifest: in JSON as one document, otherwise in YAML.
func Print(out io.Writer, format output.Format, namespace string, values map[string]any) error {
	manifest, err := Manifest(namespace, values)
	if err != nil {
		return err
	}
	if format != output.JSON {
		_, err := out.Write(manifest)
		return err
	}
	var objects []any
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		var fields map[string]any
		if err := yaml.Unmarshal(document, &fields); err != nil {
			return fmt.Errorf("decoding the manifest of chart %s: %w", chartName, err)
		}
		if len(fields) > 0 {
			objects = append(objects, fields)
		}
	}
	return output.Objects(out, format, objects...)
}

// Pod returns the template of the agent's pods.
func Pod(namespace string, values map[string]any) (corev1.PodTemplateSpec, error) {
	manifest, err := Manifest(namespace, values)
	if err != nil {
		return corev1.PodTemplateSpec{}, err
	}
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		var deployment appsv1.Deployment
		if err := yaml.Unmarshal(document, &deployment); err == nil && deployment.Kind == "Deployment" {
			return deployment.Spec.Template, nil
		}
	}
	return corev1.PodTemplateSpec{}, fmt.Errorf("chart %s has no Deployment", chartName)
}

func load() (*chart.Chart, error) { return agentchart.Load(charts.FS, chartName) }

// Helm is the Helm of a cluster.
type Helm struct {
	config    *action.Configuration
	namespace string
}

// New returns the Helm of a cluster for a namespace. It sends no request.
func New(cfg *rest.Config, namespace string) (*Helm, error) {
	config := new(action.Configuration)
	if err := config.Init(Getter(cfg, namespace), namespace, "secret", func(string, ...any) {}); err != nil {
		return nil, fmt.Errorf("preparing Helm: %w", err)
	}
	return &Helm{config: config, namespace: namespace}, nil
}

// Status returns the status of the agent's release, or an empty text if there is none.
func (h *Helm) Status() (release.Status, error) {
	last, err := h.last()
	if last == nil {
		return "", err
	}
	return last.Info.Status, nil
}

// Values returns the values with which the agent's release was installed. Without a release they are nil.
func (h *Helm) Values() (map[string]any, error) {
	last, err := h.last()
	if last == nil || last.Info.Status == release.StatusUninstalled {
		return nil, err
	}
	return last.Config, nil
}

// last returns the last revision of the agent's release, or nil if there is none.
func (h *Helm) last() (*release.Release, error) {
	last, err := h.config.Releases.Last(chartName)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil //nolint:nilnil // there is no release, which is not an error
	}
	if err != nil {
		return nil, fmt.Errorf("reading Helm release %s/%s: %w", h.namespace, chartName, err)
	}
	return last, nil
}

// Install installs the chart. If an earlier attempt left a release, it replaces it. It returns when all objects are written.
// takeOver also installs it over objects of other releases, if there is no release. created means that there was no release
// before, also if there is an error.
func (h *Helm) Install(ctx context.Context, values map[string]any, takeOver bool) (created bool, err error) {
	loaded, err := load()
	if err != nil {
		return false, err
	}
	last, err := h.last()
	if err != nil {
		return false, err
	}
	created = last == nil || last.Info.Status == release.StatusUninstalled
	switch {
	case last == nil:
		install := action.NewInstall(h.config)
		install.ReleaseName, install.Namespace, install.CreateNamespace = chartName, h.namespace, true
		install.TakeOwnership = takeOver
		_, err = install.RunWithContext(ctx, loaded, values)
	case last.Info.Status.IsPending(), last.Info.Status == release.StatusUninstalling, last.Info.Status == release.StatusUninstalled:
		if err := h.forget(last); err != nil {
			return false, err
		}
		_, err := h.Install(ctx, values, takeOver)
		return created, err
	default:
		if err = h.upgrade(ctx, loaded, values); err != nil && strings.Contains(err.Error(), "not found") {
			// The agent that runs deletes its bootstrap Secret once it is registered, also between Helm's read and its write.
			err = h.upgrade(ctx, loaded, values)
		}
	}
	if err != nil {
		return created, fmt.Errorf("installing chart %s as %s/%s: %w", chartName, h.namespace, chartName, err)
	}
	return created, nil
}

func (h *Helm) upgrade(ctx context.Context, loaded *chart.Chart, values map[string]any) error {
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace = h.namespace
	_, err := upgrade.RunWithContext(ctx, chartName, loaded, values)
	return err //nolint:wrapcheck // Install adds the context
}

// forget marks a revision as failed that another process did not complete or has removed, so that Helm goes on.
func (h *Helm) forget(last *release.Release) error {
	last.SetStatus(release.StatusFailed, "interrupted")
	if err := h.config.Releases.Update(last); err != nil {
		return fmt.Errorf("completing Helm release %s/%s: %w", h.namespace, chartName, err)
	}
	return nil
}

// Uninstall removes the release and all its objects. A missing release is not an error.
func (h *Helm) Uninstall() error { return h.uninstall(true) }

// UninstallWithoutHooks removes the release, but not the objects that the agent has created besides it.
func (h *Helm) UninstallWithoutHooks() error { return h.uninstall(false) }

func (h *Helm) uninstall(hooks bool) error {
	uninstall := action.NewUninstall(h.config)
	uninstall.IgnoreNotFound, uninstall.DisableHooks = true, !hooks
	if _, err := uninstall.Run(chartName); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return fmt.Errorf("uninstalling Helm release %s/%s: %w", h.namespace, chartName, err)
	}
	return nil
}

// Getter creates Helm's clients from a client configuration instead of a kubeconfig file.
func Getter(config *rest.Config, namespace string) genericclioptions.RESTClientGetter {
	return &getter{config: config, namespace: namespace}
}

type getter struct {
	config    *rest.Config
	namespace string
}

func (g *getter) ToRESTConfig() (*rest.Config, error) {
	config := rest.CopyConfig(g.config)
	config.QPS, config.Timeout = -1, requestTimeout
	return config, nil
}

func (g *getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	client, err := discovery.NewDiscoveryClientForConfig(g.config)
	if err != nil {
		return nil, err
	}
	return memory.NewMemCacheClient(client), nil
}

func (g *getter) ToRESTMapper() (meta.RESTMapper, error) {
	client, err := g.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return restmapper.NewDeferredDiscoveryRESTMapper(client), nil
}

func (g *getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{}
	overrides.Context.Namespace = g.namespace
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), overrides)
}
