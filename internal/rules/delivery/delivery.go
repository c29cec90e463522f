package delivery

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/objects"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/annotation"
)

// Input is the input for one BundleDeployment.
type Input struct {
	Bundle *fleet.Bundle
	// Target has no error, and its Cluster has a namespace.
	Target targeting.Target
	// Action is the rollout's decision. NoChange requires Existing.
	Action rollout.Action
	// Existing is the existing BundleDeployment, or nil.
	Existing *fleet.BundleDeployment
	// Values are the values in the Secret of Existing, or nil if that Secret does not exist. They are used only if
	// NeedsValues returns true.
	Values *Values
	// SecretKnown means that the Secret is known to match the hash in Existing.
	SecretKnown bool
	// PlainInSecrets puts values into a Secret that the Bundle has as plain text, too.
	PlainInSecrets bool
}

// Outcome is the wanted BundleDeployment and its values.
type Outcome struct {
	// Deployment is complete except for fields that the server sets. It keeps the metadata of the existing one, except
	// for the labels. Its options have the values that are not confidential.
	Deployment *fleet.BundleDeployment
	// Values are the content of its Secret. Empty means that no Secret is needed. With KeepSecret, the Secret stays
	// unchanged, whether it exists or not.
	Values     Values
	KeepSecret bool
}

// Decide returns the BundleDeployment of a target. It does not change its input.
func Decide(in Input) (Outcome, error) {
	staged := *in.Target.Options.DeepCopy()
	stagedValues, err := TakeValues(&staged)
	if err != nil {
		return Outcome{}, err
	}
	bd := skeleton(in)
	before := bd.Spec
	bd.Labels, bd.Spec = deploymentLabels(in.Bundle, in.Target), deploymentSpec(in, before, staged)
	out := Outcome{Deployment: bd}
	plain := in.Bundle.Spec.ValuesHash == ""
	switch {
	case in.Action == rollout.Promote:
		bd.Spec.Options = *staged.DeepCopy()
		bd.Spec.DeploymentID = bd.Spec.StagedDeploymentID
		bd.Spec.Paused = targeting.IsPaused(in.Bundle, in.Target.Cluster)
		out.Values = Values{Current: stagedValues, Staged: stagedValues}
	case in.Action == rollout.NoChange:
		bd.Spec.StagedOptions, bd.Spec.StagedDeploymentID = before.StagedOptions, before.StagedDeploymentID
		bd.Spec.ValuesHash, bd.Spec.WaitingForValues, out.KeepSecret = before.ValuesHash, before.WaitingForValues, true
		return out, nil
	case before.ValuesHash == "":
		// The agent's current values are in its options. They are not confidential, but the new ones may be.
		current, err := TakeValues(&bd.Spec.Options)
		if err != nil {
			return Outcome{}, err
		}
		out.Values = Values{Current: current, Staged: stagedValues}
	case !in.NeedsValues():
		// Neither the staged nor the deployed state changes, so their values do not change.
		out.Values.Staged = stagedValues
		bd.Spec.ValuesHash, out.KeepSecret = before.ValuesHash, true
		return out, nil
	default:
		current, known := currentValues(in)
		if !known {
			// The agent's current values are unknown, so it waits until a change is promoted.
			bd.Spec.ValuesHash, bd.Spec.WaitingForValues, out.KeepSecret = in.Existing.Spec.ValuesHash, true, true
			return out, nil
		}
		out.Values = Values{Current: current, Staged: stagedValues}
		plain = plain && bd.Annotations[annotation.PlainValues] == in.Existing.Spec.ValuesHash
	}
	return in.place(out, plain)
}

// place puts the values where the agent reads them: plain values into the options, all others into the Secret.
func (in Input) place(out Outcome, plain bool) (Outcome, error) {
	spec := &out.Deployment.Spec
	if !plain || in.PlainInSecrets || !out.Values.fitInline() || in.keepsSecret(out) {
		spec.ValuesHash = out.Values.Hash()
		markValues(out.Deployment, plain)
		return out, nil
	}
	err := errors.Join(putValues(&spec.Options, out.Values.Current), putValues(&spec.StagedOptions, out.Values.Staged))
	markValues(out.Deployment, false)
	out.Values = Values{}
	return out, err
}

// keepsSecret reports whether nothing is deployed or staged, so that plain values that are in a Secret stay there. They
// leave it with the next deployment: an upgrade, a take-over or a change of the setting does not write everything again.
func (in Input) keepsSecret(out Outcome) bool {
	if in.Existing == nil {
		return false
	}
	before, wanted := &in.Existing.Spec, &out.Deployment.Spec
	return before.ValuesHash != "" && before.ValuesHash == out.Values.Hash() && !before.WaitingForValues &&
		before.DeploymentID == wanted.DeploymentID && before.StagedDeploymentID == wanted.StagedDeploymentID
}

// markValues records the hash of values that were in the Bundle itself before they were moved to the Secret. It
// removes the mark from all others.
func markValues(bd *fleet.BundleDeployment, plain bool) {
	hash := ""
	if plain {
		hash = bd.Spec.ValuesHash
	}
	objects.Annotate(bd, annotation.PlainValues, hash)
}

// CopyMark copies the mark of the values from one BundleDeployment to another, or removes it.
func CopyMark(to, from *fleet.BundleDeployment) {
	objects.Annotate(to, annotation.PlainValues, from.Annotations[annotation.PlainValues])
}

// deploymentSpec returns a spec with the new staged state and the agent's current state.
func deploymentSpec(in Input, before fleet.BundleDeploymentSpec, staged fleet.BundleDeploymentOptions) fleet.BundleDeploymentSpec {
	cluster := in.Target.Cluster
	return fleet.BundleDeploymentSpec{
		// Rancher Fleet's agents do not know that nothing is deployed yet: they would look for the Content of an empty ID.
		Paused:             before.DeploymentID == "" || targeting.IsPaused(in.Bundle, cluster),
		StagedOptions:      staged,
		StagedDeploymentID: in.Target.DeploymentID,
		Options:            before.Options,
		DeploymentID:       before.DeploymentID,
		DependsOn:          (&fleet.BundleSpec{DependsOn: in.Bundle.Spec.DependsOn}).DeepCopy().DependsOn,
		CorrectDrift:       staged.CorrectDrift.DeepCopy(),
		OffSchedule:        targeting.IsOffSchedule(cluster),

		DownstreamResourcesGeneration: before.DownstreamResourcesGeneration,
	}
}

// NeedsValues reports whether Values have to be read: the agent keeps values that only the Secret holds, and the
// Secret has to be rewritten or its content is unknown.
func (in Input) NeedsValues() bool {
	if in.Action != rollout.Stage || in.Existing == nil || in.Existing.Spec.ValuesHash == "" {
		return false
	}
	return !in.SecretKnown || in.Existing.Spec.WaitingForValues || in.Existing.Spec.StagedDeploymentID != in.Target.DeploymentID
}

// currentValues returns the agent's current values, which only the Secret holds.
func currentValues(in Input) (values []byte, known bool) {
	switch {
	case in.Values == nil:
		return nil, false
	case in.Values.Hash() == in.Existing.Spec.ValuesHash, isCurrent(in, in.Values.Current):
		return in.Values.Current, true
	default:
		return nil, false
	}
}

// isCurrent reports whether the values belong to the agent's current deployment ID. This recognises them even if a
// write was interrupted between the Secret and the BundleDeployment, so that the hash does not match the Secret. The ID
// does not depend on the labels and annotations that targets add to the release's namespace, but the options have them.
func isCurrent(in Input, text []byte) bool {
	options := *in.Existing.Spec.Options.DeepCopy()
	if err := putValues(&options, text); err != nil {
		return false
	}
	if hasID(in.Existing, options) {
		return true
	}
	options.NamespaceLabels, options.NamespaceAnnotations = in.Bundle.Spec.NamespaceLabels, in.Bundle.Spec.NamespaceAnnotations
	return hasID(in.Existing, options)
}

// hasID reports whether a BundleDeployment's current deployment ID is that of these options.
func hasID(bd *fleet.BundleDeployment, options fleet.BundleDeploymentOptions) bool {
	manifestID, _ := content.SplitDeploymentID(bd.Spec.DeploymentID)
	id, err := targeting.DeploymentID(manifestID, options)
	return err == nil && id == bd.Spec.DeploymentID
}

// skeleton returns a copy of the existing BundleDeployment, or the start of a new one.
func skeleton(in Input) *fleet.BundleDeployment {
	if in.Existing != nil {
		return in.Existing.DeepCopy()
	}
	return &fleet.BundleDeployment{
		TypeMeta: metav1.TypeMeta{APIVersion: fleet.SchemeGroupVersion.String(), Kind: "BundleDeployment"},
		ObjectMeta: metav1.ObjectMeta{
			Name:       in.Bundle.Name,
			Namespace:  in.Target.Cluster.Status.Namespace,
			Finalizers: []string{fleet.FinalizerBundleDeployment},
		},
	}
}

// Same reports whether nothing needs to be written to turn a BundleDeployment into another: labels, spec and the mark
// of its values are equal. A missing mark is added with the next change, so that an upgrade writes nothing.
func Same(existing, wanted *fleet.BundleDeployment) bool {
	mark := existing.Annotations[annotation.PlainValues]
	return (mark == "" || mark == wanted.Annotations[annotation.PlainValues]) &&
		equality.Semantic.DeepEqual(existing.Labels, wanted.Labels) &&
		equality.Semantic.DeepEqual(compacted(existing.Spec), compacted(wanted.Spec))
}

// SameButLabels reports whether nothing but labels differs.
func SameButLabels(existing, wanted *fleet.BundleDeployment) bool {
	labelled := *existing
	labelled.Labels = wanted.Labels
	return Same(&labelled, wanted)
}

// compacted returns the spec as caches hold it.
func compacted(spec fleet.BundleDeploymentSpec) fleet.BundleDeploymentSpec {
	CompactValues(&spec.Options)
	CompactValues(&spec.StagedOptions)
	return spec
}

// deploymentLabels returns the labels of the Bundle and of the cluster.
func deploymentLabels(bundle *fleet.Bundle, target targeting.Target) map[string]string {
	labels := targeting.BundleLabels(bundle)
	labels[fleet.LabelClusterNamespace] = target.Cluster.Namespace
	labels[fleet.LabelCluster] = target.Cluster.Name
	if manifestID, _ := content.SplitDeploymentID(target.DeploymentID); manifestID != "" {
		labels[fleet.LabelContentName] = manifestID
	}
	return labels
}

// IsEdited reports whether a change of a BundleDeployment is one that rollouts do not make: it stages and promotes nothing,
// or promotes something that was not staged. The refresh of a setting such as a pause is also one.
func IsEdited(older, newer *fleet.BundleDeployment) bool {
	before, after := older.Spec, newer.Spec
	switch {
	case older.UID != newer.UID || older.Generation == newer.Generation:
		return false
	case before.DeploymentID != after.DeploymentID:
		return after.DeploymentID != after.StagedDeploymentID
	case before.StagedDeploymentID != after.StagedDeploymentID:
		return false
	}
	before.DownstreamResourcesGeneration = after.DownstreamResourcesGeneration // that of another controller
	return !equality.Semantic.DeepEqual(before, after)
}
