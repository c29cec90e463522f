package delivery

import (
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/fleet-hub/fleet/internal/rules/content"
	"github.com/fleet-hub/fleet/internal/rules/rollout"
	"github.com/fleet-hub/fleet/internal/rules/targeting"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Input is what a BundleDeployment is made of.
type Input struct {
	Bundle *fleet.Bundle
	// Target is without an error, and its Cluster has a namespace.
	Target targeting.Target
	// Verdict is the rollout's. Leave needs an Existing one.
	Verdict rollout.Verdict
	// Existing is what is there; nil if there is none yet.
	Existing *fleet.BundleDeployment
	// Values are those in the Secret of Existing. They matter only where NeedsValues says so; nil if the Secret is gone.
	Values *Values
	// SecretKnown means that the Secret is known to hold what the hash in Existing says.
	SecretKnown bool
}

// Outcome is what should be there.
type Outcome struct {
	// Deployment is complete but for what the server sets. It has the metadata of the
	// existing one, labels apart.
	Deployment *fleet.BundleDeployment
	// Values belong into its Secret; empty means that none is needed. With KeepSecret,
	// the Secret stays as it is, whether it is there or not.
	Values     Values
	KeepSecret bool
}

// Decide makes the BundleDeployment of a target. Nothing of the input is changed.
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
	case in.Verdict == rollout.Promote:
		bd.Spec.Options = *staged.DeepCopy()
		bd.Spec.DeploymentID = bd.Spec.StagedDeploymentID
		out.Values = Values{Current: stagedValues, Staged: stagedValues}
	case in.Verdict == rollout.Leave:
		bd.Spec.StagedOptions, bd.Spec.StagedDeploymentID = before.StagedOptions, before.StagedDeploymentID
		bd.Spec.ValuesHash, bd.Spec.WaitingForValues, out.KeepSecret = before.ValuesHash, before.WaitingForValues, true
		return out, nil
	case !in.NeedsValues():
		// What is staged, and what the agent has, are what they were; so are the values.
		out.Values.Staged = stagedValues
		if in.Existing != nil && in.Existing.Spec.ValuesHash != "" {
			bd.Spec.ValuesHash, out.KeepSecret = in.Existing.Spec.ValuesHash, true
			return out, nil
		}
	default:
		current, known := currentValues(in)
		if !known {
			// The agent could not tell what it runs with: it waits until a change is promoted.
			bd.Spec.ValuesHash, bd.Spec.WaitingForValues, out.KeepSecret = in.Existing.Spec.ValuesHash, true, true
			return out, nil
		}
		out.Values = Values{Current: current, Staged: stagedValues}
		plain = plain && bd.Annotations[fleet.AnnotationPlainValues] == in.Existing.Spec.ValuesHash
	}
	bd.Spec.ValuesHash = out.Values.Hash()
	markValues(bd, plain)
	return out, nil
}

// markValues marks values that were in plain sight before they went into the Secret, by their hash, and takes the mark
// off all others.
func markValues(bd *fleet.BundleDeployment, plain bool) {
	if plain {
		setMark(bd, bd.Spec.ValuesHash)
	} else {
		setMark(bd, "")
	}
}

// CopyMark gives a BundleDeployment the mark of values that another one has, or none.
func CopyMark(to, from *fleet.BundleDeployment) {
	setMark(to, from.Annotations[fleet.AnnotationPlainValues])
}

func setMark(bd *fleet.BundleDeployment, hash string) {
	if hash == "" {
		delete(bd.Annotations, fleet.AnnotationPlainValues)
		return
	}
	if bd.Annotations == nil {
		bd.Annotations = map[string]string{}
	}
	bd.Annotations[fleet.AnnotationPlainValues] = hash
}

// deploymentSpec has what is staged newly, and lets the agent go on with what it has.
func deploymentSpec(in Input, before fleet.BundleDeploymentSpec, staged fleet.BundleDeploymentOptions) fleet.BundleDeploymentSpec {
	cluster := in.Target.Cluster
	return fleet.BundleDeploymentSpec{
		Paused:             targeting.IsPaused(in.Bundle, cluster),
		StagedOptions:      staged,
		StagedDeploymentID: in.Target.DeploymentID,
		Options:            before.Options,
		DeploymentID:       before.DeploymentID,
		DependsOn:          in.Bundle.DeepCopy().Spec.DependsOn,
		CorrectDrift:       staged.CorrectDrift.DeepCopy(),
		OffSchedule:        cluster.Status.Scheduled && !cluster.Status.ActiveSchedule,

		DownstreamResourcesGeneration: before.DownstreamResourcesGeneration,
	}
}

// NeedsValues says whether Values have to be read: the agent goes on with values that only the Secret knows, and it has
// to be written anew, or nobody knows what it holds.
func (in Input) NeedsValues() bool {
	if in.Verdict != rollout.Stage || in.Existing == nil || in.Existing.Spec.ValuesHash == "" {
		return false
	}
	return !in.SecretKnown || in.Existing.Spec.WaitingForValues || in.Existing.Spec.StagedDeploymentID != in.Target.DeploymentID
}

// currentValues are those the agent runs with, which only the Secret knows.
func currentValues(in Input) (values []byte, known bool) {
	switch {
	case in.Values == nil:
		return nil, false
	case in.Values.Hash() == in.Existing.Spec.ValuesHash, isCurrent(in.Existing, in.Values.Current):
		return in.Values.Current, true
	default:
		return nil, false
	}
}

// isCurrent says whether the values are those of the deployment ID the agent has. So
// they are recognised also where a write ended between the Secret and the
// BundleDeployment, and the hash of both values is no longer that of the Secret.
func isCurrent(bd *fleet.BundleDeployment, text []byte) bool {
	options := *bd.Spec.Options.DeepCopy()
	if len(text) > 0 {
		var values map[string]any
		if err := utiljson.Unmarshal(text, &values); err != nil {
			return false
		}
		if options.Helm == nil {
			options.Helm = &fleet.HelmOptions{}
		}
		options.Helm.Values = &fleet.GenericMap{Data: values}
	}
	manifestID, _ := content.SplitDeploymentID(bd.Spec.DeploymentID)
	id, err := targeting.DeploymentID(manifestID, options)
	return err == nil && id == bd.Spec.DeploymentID
}

// skeleton is a copy of what is there, or what a new one begins with.
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

// Same reports whether nothing needs to be written to turn a BundleDeployment into another: labels, spec and the mark of
// its values are equal. A mark that is only missing comes with the next change, so that an upgrade writes nothing.
func Same(existing, wanted *fleet.BundleDeployment) bool {
	mark := existing.Annotations[fleet.AnnotationPlainValues]
	return (mark == "" || mark == wanted.Annotations[fleet.AnnotationPlainValues]) &&
		equality.Semantic.DeepEqual(existing.Labels, wanted.Labels) && equality.Semantic.DeepEqual(existing.Spec, wanted.Spec)
}

// deploymentLabels are those of the Bundle and those of the cluster.
func deploymentLabels(bundle *fleet.Bundle, target targeting.Target) map[string]string {
	labels := targeting.BundleLabels(bundle)
	labels[fleet.LabelClusterNamespace] = target.Cluster.Namespace
	labels[fleet.LabelCluster] = target.Cluster.Name
	if manifestID, _ := content.SplitDeploymentID(target.DeploymentID); manifestID != "" {
		labels[fleet.LabelContentName] = manifestID
	}
	return labels
}
