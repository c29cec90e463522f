package targeting

import (
	"maps"
	"slices"
	"strings"

	"github.com/fleet-hub/fleet/internal/helmvalues"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Merge returns the options of a Bundle with those of targets applied one after another. Fields that are not listed here
// can only be set by the Bundle. The inputs are not changed, and the result shares no memory with them. The cost grows with
// the sum of their sizes.
func Merge(base fleet.BundleDeploymentOptions, overlays ...fleet.BundleDeploymentOptions) fleet.BundleDeploymentOptions {
	m := merger{out: *base.DeepCopy()}
	for i := range overlays {
		m.add(overlays[i].DeepCopy())
	}
	return m.out
}

// RootOnly returns the keys of options that Merge takes only from the Bundle. Nothing else applies those of targets either. Keys that
// fleet.yaml may not contain are not among them.
func RootOnly() []string {
	return []string{
		"createNamespace", "deleteNamespace", "deleteCRDResources", "ignore",
		"helm.maxHistory", "helm.skipSchemaValidation", "helm.disableDependencyUpdate",
	}
}

// merger merges overlays into options. It remembers the places of entries in the lists that are merged by key.
type merger struct {
	out                               fleet.BundleDeploymentOptions
	patches, downstream, valuesSource places
}

func (m *merger) add(custom *fleet.BundleDeploymentOptions) {
	out := &m.out
	replace(&out.DefaultNamespace, custom.DefaultNamespace)
	replace(&out.TargetNamespace, custom.TargetNamespace)
	replace(&out.ServiceAccount, custom.ServiceAccount)
	if custom.Helm != nil {
		if out.Helm == nil {
			out.Helm = &fleet.HelmOptions{}
		}
		m.addHelm(out.Helm, custom.Helm)
	}
	if custom.Kustomize != nil {
		if out.Kustomize == nil {
			out.Kustomize = &fleet.KustomizeOptions{}
		}
		replace(&out.Kustomize.Dir, custom.Kustomize.Dir)
	}
	if custom.Diff != nil {
		if out.Diff == nil {
			out.Diff = &fleet.DiffOptions{}
		}
		out.Diff.ComparePatches = union(out.Diff.ComparePatches, custom.Diff.ComparePatches, comparePatchKey, &m.patches)
	}
	if custom.YAML != nil {
		if out.YAML == nil {
			out.YAML = &fleet.YAMLOptions{}
		}
		out.YAML.Overlays = append(out.YAML.Overlays, custom.YAML.Overlays...)
	}
	if custom.ForceSyncGeneration > 0 {
		out.ForceSyncGeneration = custom.ForceSyncGeneration
	}
	out.KeepResources = out.KeepResources || custom.KeepResources
	if custom.CorrectDrift != nil {
		out.CorrectDrift = custom.CorrectDrift
	}
	out.DownstreamResources = union(out.DownstreamResources, custom.DownstreamResources, downstreamKey, &m.downstream)
}

func (m *merger) addHelm(out, custom *fleet.HelmOptions) {
	switch {
	case custom.TimeoutSeconds > 0:
		out.TimeoutSeconds = custom.TimeoutSeconds
	case custom.TimeoutSeconds < 0:
		out.TimeoutSeconds = 0 // a negative value is the only way to remove a timeout
	}
	switch {
	case out.Values == nil:
		out.Values = custom.Values
	case custom.Values != nil:
		out.Values.Data = helmvalues.MergeInto(out.Values.Data, custom.Values.Data)
	}
	if out.TemplateValues == nil {
		out.TemplateValues = custom.TemplateValues
	} else {
		maps.Copy(out.TemplateValues, custom.TemplateValues)
	}
	out.ValuesFrom = union(out.ValuesFrom, custom.ValuesFrom, valuesFromKey, &m.valuesSource)
	replace(&out.Repo, custom.Repo)
	replace(&out.Chart, custom.Chart)
	replace(&out.Version, custom.Version)
	replace(&out.ReleaseName, custom.ReleaseName)
	out.Force = out.Force || custom.Force
	out.Atomic = out.Atomic || custom.Atomic
	out.TakeOwnership = out.TakeOwnership || custom.TakeOwnership
	out.DisablePreProcess = out.DisablePreProcess || custom.DisablePreProcess
	out.WaitForJobs = out.WaitForJobs || custom.WaitForJobs
	out.DisableDNS = out.DisableDNS || custom.DisableDNS
}

func replace(base *string, custom string) {
	if custom != "" {
		*base = custom
	}
}

// places are the positions of the first entries with each key, or nil before the first union.
type places map[string]int

// union adds the custom entries to the base. A custom entry replaces the base's entry with the same key. An empty key
// matches no other entry. If several custom entries have the same key, the first one is used.
func union[T any](base, custom []T, key func(T) string, known *places) []T {
	if len(custom) == 0 {
		return base
	}
	if *known == nil {
		*known = make(places, len(base))
		for i, entry := range slices.Backward(base) {
			(*known)[key(entry)] = i
		}
	}
	used := make(map[string]bool, len(custom))
	for _, entry := range custom {
		wanted := key(entry)
		at, replaces := (*known)[wanted]
		switch {
		case wanted != "" && used[wanted]:
			continue
		case wanted != "" && replaces:
			base[at] = entry
		default:
			if !replaces {
				(*known)[wanted] = len(base)
			}
			base = append(base, entry)
		}
		used[wanted] = true
	}
	return base
}

func valuesFromKey(v fleet.ValuesFrom) string {
	switch {
	case v.ConfigMapKeyRef != nil:
		return strings.Join([]string{"configmap", v.ConfigMapKeyRef.Namespace, v.ConfigMapKeyRef.Name, v.ConfigMapKeyRef.Key}, "|")
	case v.SecretKeyRef != nil:
		return strings.Join([]string{"secret", v.SecretKeyRef.Namespace, v.SecretKeyRef.Name, v.SecretKeyRef.Key}, "|")
	default:
		return ""
	}
}

func comparePatchKey(p fleet.ComparePatch) string {
	return strings.Join([]string{p.APIVersion, p.Kind, p.Namespace, p.Name}, "|")
}

func downstreamKey(r fleet.DownstreamResource) string {
	return strings.ToLower(r.Kind) + "|" + r.Name
}
