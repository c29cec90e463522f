package labcontrolplane

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/clustersecrets"
	"github.com/fleet-hub/fleet/dev/machines/contract"
	"github.com/fleet-hub/fleet/dev/machines/labconfig"
	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// Finalizer keeps a LabControlPlane until its Machine is deleted.
const Finalizer = "lab.fleet-hub.io/control-plane"

// Stage is what happens to a LabControlPlane.
type Stage string

// The stages.
const (
	// Skipping writes nothing.
	Skipping Stage = "Skipping"
	// Adopting adds the finalizer.
	Adopting Stage = "Adopting"
	// Securing creates the Secrets with the keys of the cluster.
	Securing Stage = "Securing"
	// Waiting reports what is missing or wrong.
	Waiting Stage = "Waiting"
	// Running creates what does not exist, and reports the state of the control plane.
	Running Stage = "Running"
	// Deleting deletes the Machine. When it is gone, the finalizer is removed.
	Deleting Stage = "Deleting"
)

// Reasons of the condition Available, beside those of Cluster API.
const (
	ReasonVersionNotAvailable = labconfig.ReasonVersionNotAvailable
	ReasonCertificatesInvalid = labconfig.ReasonCertificatesInvalid
	ReasonKubeconfigInvalid   = labconfig.ReasonKubeconfigInvalid
	ReasonTemplateInvalid     = "MachineTemplateInvalid"
	ReasonNameConflict        = "NameConflict"
	ReasonStarting            = "Starting"
	ReasonNotAnswering        = "APIServerNotAnswering"
)

// Delays until the API server is asked again.
const (
	// startInterval is short, because everything else waits for the first answer.
	startInterval = 500 * time.Millisecond
	// lostInterval applies while the API server no longer answers, checkInterval while it answers.
	lostInterval  = 2 * time.Second
	checkInterval = 15 * time.Second
)

// Server is the answer of the API server.
type Server struct {
	// Asked is false if nothing was sent. Then the last known state stays.
	Asked   bool
	Version string
	Err     error
}

// Input is what a decision depends on.
type Input struct {
	ControlPlane *api.LabControlPlane
	// Cluster owns the LabControlPlane. It is nil if it is not known.
	Cluster *clusterv1.Cluster
	// The Secrets of the cluster. Nil if one does not exist.
	CA, Accounts, Kubeconfig *corev1.Secret
	// Template is the one that infrastructureRef names. TemplateErr says why it cannot be used.
	Template    *api.LabMachineTemplate
	TemplateErr error
	// The objects with the name MachineName. Nil if one does not exist.
	Machine    *clusterv1.Machine
	LabMachine *api.LabMachine
	LabConfig  *api.LabConfig

	Server Server
	Now    time.Time
}

// Outcome is what to do.
type Outcome struct {
	Stage Stage
	// NewCA and NewAccounts create Secrets while Securing.
	NewCA, NewAccounts bool
	// Authority is the CA, and NewKubeconfig writes a kubeconfig with it while Running.
	Authority     pki.Authority
	NewKubeconfig bool
	// Create lists the objects to create while Running: LabMachine and LabConfig before the Machine.
	Create []metav1.Object
	// DeleteMachine and RemoveFinalizer apply while Deleting. Only one is set.
	DeleteMachine, RemoveFinalizer bool
	// Available is the condition to report. Nil leaves it as it is.
	Available *metav1.Condition
	// After is the delay until the next decision. Zero means that it depends on an event.
	After time.Duration
}

// Decide returns the next step.
func Decide(in Input) Outcome {
	switch {
	case contract.IsPaused(in.Cluster, in.ControlPlane):
		return Outcome{Stage: Skipping}
	case in.ControlPlane.DeletionTimestamp != nil:
		return deleting(in)
	case in.Cluster == nil: // the core has not set the owner yet
		return Outcome{Stage: Skipping}
	case !slices.Contains(in.ControlPlane.Finalizers, Finalizer):
		return Outcome{Stage: Adopting}
	case in.CA == nil, in.Accounts == nil:
		return Outcome{Stage: Securing, NewCA: in.CA == nil, NewAccounts: in.Accounts == nil}
	}
	ca, problem := readKeys(in)
	switch {
	case problem != nil:
		return *problem
	case !isInfrastructureProvisioned(in.Cluster):
		return waiting(clusterv1.WaitingForClusterInfrastructureReadyReason, "the infrastructure of Cluster "+in.Cluster.Name+" is not provisioned yet")
	default:
		return running(in, ca)
	}
}

func deleting(in Input) Outcome {
	out := Outcome{Stage: Deleting, Available: notAvailable(clusterv1.DeletingReason, "")}
	switch {
	case !slices.Contains(in.ControlPlane.Finalizers, Finalizer):
		return Outcome{Stage: Skipping}
	case in.Machine == nil || !metav1.IsControlledBy(in.Machine, in.ControlPlane):
		return Outcome{Stage: Deleting, RemoveFinalizer: true}
	case in.Machine.DeletionTimestamp == nil:
		out.DeleteMachine = true
	default:
		out.Available.Message = "Machine " + in.Machine.Name + " is being deleted"
	}
	return out
}

func readKeys(in Input) (pki.Authority, *Outcome) {
	secrets := owner(in)
	ca, err := secrets.ReadCA(in.CA)
	if err == nil {
		_, err = secrets.ReadAccounts(in.Accounts)
	}
	if err != nil {
		invalid := waiting(ReasonCertificatesInvalid, err.Error())
		return ca, &invalid
	}
	return ca, nil
}

func owner(in Input) clustersecrets.Owner {
	return clustersecrets.OwnerOf(in.ControlPlane, in.Cluster.Name)
}

func isInfrastructureProvisioned(cluster *clusterv1.Cluster) bool {
	provisioned := cluster.Status.Initialization.InfrastructureProvisioned
	return provisioned != nil && *provisioned && cluster.Spec.ControlPlaneEndpoint.IsValid()
}

// running keeps the kubeconfig valid, creates what is missing, and reports.
func running(in Input, ca pki.Authority) Outcome {
	out := Outcome{Stage: Running, Authority: ca}
	var renewIn time.Duration
	if in.Kubeconfig != nil {
		var err error
		if renewIn, err = owner(in).RenewIn(in.Kubeconfig, ca, clustersecrets.URL(in.Cluster.Spec.ControlPlaneEndpoint), in.Now); err != nil {
			return waiting(ReasonKubeconfigInvalid, err.Error())
		}
	}
	out.NewKubeconfig = renewIn == 0
	if in.Machine == nil || in.LabMachine == nil || in.LabConfig == nil {
		if problem := addMissing(in, &out); problem != nil {
			return *problem
		}
	}
	if problem := conflict(in); problem != nil {
		return *problem
	}
	out.Available, out.After = available(in)
	if !out.NewKubeconfig {
		out.After = min(out.After, renewIn)
	}
	return out
}

// addMissing adds the missing objects of the Machine.
func addMissing(in Input, out *Outcome) *Outcome {
	if in.Machine != nil {
		return nil // its objects are being deleted with it, or the cache does not know them yet
	}
	var problem Outcome
	switch ref := in.ControlPlane.Spec.MachineTemplate.Spec.InfrastructureRef; {
	case !labconfig.IsAvailable(in.ControlPlane.Spec.Version):
		problem = waiting(ReasonVersionNotAvailable, labconfig.VersionMessage("LabControlPlane "+in.ControlPlane.Name, in.ControlPlane.Spec.Version))
	case in.TemplateErr != nil:
		problem = waiting(ReasonTemplateInvalid, in.TemplateErr.Error())
	case in.Template == nil:
		problem = waiting(ReasonTemplateInvalid, fmt.Sprintf("%s %s/%s does not exist: create it", ref.Kind, in.ControlPlane.Namespace, ref.Name))
	default:
		out.Create = missing(in)
		return nil
	}
	return &problem
}

// CheckTemplate returns an error if a LabControlPlane does not refer to a LabMachineTemplate.
func CheckTemplate(controlPlane *api.LabControlPlane) error {
	ref := controlPlane.Spec.MachineTemplate.Spec.InfrastructureRef
	if ref.APIGroup != api.GroupVersion().Group || ref.Kind != "LabMachineTemplate" {
		return fmt.Errorf("spec.machineTemplate.spec.infrastructureRef refers to a %.63s of group %.253s: refer to a LabMachineTemplate of group %s",
			ref.Kind, ref.APIGroup, api.GroupVersion().Group)
	}
	return nil
}

// conflict reports objects with the computed name that another client created.
func conflict(in Input) *Outcome {
	name := MachineName(in.ControlPlane)
	report := func(kind string) *Outcome {
		found := waiting(ReasonNameConflict, fmt.Sprintf("%s %s/%s exists, but this control plane has not created it: delete it", kind, in.ControlPlane.Namespace, name))
		return &found
	}
	switch {
	case in.Machine != nil && !metav1.IsControlledBy(in.Machine, in.ControlPlane):
		return report("Machine")
	case in.LabMachine != nil && !isPartOf(in, in.LabMachine):
		return report("LabMachine")
	case in.LabConfig != nil && !isPartOf(in, in.LabConfig):
		return report("LabConfig")
	default:
		return nil
	}
}

// isPartOf reports whether an object belongs to the LabControlPlane, or to its Machine. The core replaces the former
// owner by the latter.
func isPartOf(in Input, object metav1.Object) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return owner.UID == in.ControlPlane.UID || in.Machine != nil && owner.UID == in.Machine.UID
	})
}

func waiting(reason, message string) Outcome {
	return Outcome{Stage: Waiting, Available: notAvailable(reason, message)}
}

// ShouldAsk reports whether the API server has to be asked: the Machine exists, and so does a kubeconfig.
func ShouldAsk(in Input) bool {
	return !contract.IsPaused(in.Cluster, in.ControlPlane) && in.ControlPlane.DeletionTimestamp == nil &&
		in.Cluster != nil && in.Machine != nil && in.Kubeconfig != nil && in.CA != nil && in.Accounts != nil && isInfrastructureProvisioned(in.Cluster)
}
