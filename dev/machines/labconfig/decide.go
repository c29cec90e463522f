package labconfig

import (
	"fmt"
	"strings"
	"time"

	"github.com/rancher/wrangler/v3/pkg/name"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/fleet-hub/fleet/dev/machines/api"
	"github.com/fleet-hub/fleet/dev/machines/clustersecrets"
	"github.com/fleet-hub/fleet/dev/machines/contract"
	"github.com/fleet-hub/fleet/dev/plane/build"
	"github.com/fleet-hub/fleet/dev/plane/pki"
)

// Stage is what happens to a LabConfig.
type Stage string

// The stages.
const (
	// Skipping writes nothing.
	Skipping Stage = "Skipping"
	// Waiting reports what is missing or wrong.
	Waiting Stage = "Waiting"
	// Generating writes the bootstrap data.
	Generating Stage = "Generating"
	// Keeping reports the Secret that exists.
	Keeping Stage = "Keeping"
)

// Reasons of the condition Ready, beside those of Cluster API.
const (
	ReasonVersionNotAvailable = "VersionNotAvailable"
	ReasonCertificatesInvalid = "CertificatesInvalid"
	ReasonKubeconfigInvalid   = "KubeconfigInvalid"
	ReasonFilesInvalid        = "FilesInvalid"
	ReasonSecretConflict      = "SecretConflict"
	ReasonTokenNotWritten     = "BootstrapTokenNotWritten"
)

// Input is what a decision depends on.
type Input struct {
	Config *api.LabConfig
	// Machine and Cluster own the LabConfig. ControlPlane is the one of the Cluster. Each is nil if it is not known.
	Machine      *clusterv1.Machine
	Cluster      *clusterv1.Cluster
	ControlPlane *api.LabControlPlane
	// Data is the Secret with the bootstrap data, the others are those of the cluster. Nil if it does not exist.
	Data, CA, Accounts, Kubeconfig *corev1.Secret
	Now                            time.Time
}

// Outcome is what to do.
type Outcome struct {
	Stage Stage
	// Reason and Message are those of the condition Ready while Waiting.
	Reason, Message string
	// Keys are the keys of the cluster while Generating, and while Token is set.
	Keys Keys
	// Token is set if the machine needs a valid bootstrap token.
	Token bool
}

// Keys are the keys of a cluster.
type Keys struct {
	CA pki.Authority
	// Accounts is the key of ServiceAccount tokens. It is empty for a worker.
	Accounts pki.Pair
	// Kubeconfig lets the provider write the bootstrap token. It is empty for a control plane.
	Kubeconfig []byte
}

// DataSecret returns the name of the Secret with the bootstrap data. It depends only on the name of the LabConfig.
func DataSecret(config *api.LabConfig) string {
	return name.SafeConcatName(config.Name, "bootstrap-data")
}

// Decide returns the next step.
func Decide(in Input) Outcome {
	switch {
	case contract.IsPaused(in.Cluster, in.Config), in.Config.DeletionTimestamp != nil: // the Secret is deleted with its owner
		return Outcome{Stage: Skipping}
	case in.Machine == nil, in.Cluster == nil: // the core has not set the owner yet
		return Outcome{Stage: Skipping}
	case in.Data != nil && !isOurs(in.Data, in.Config):
		return conflict(in.Data)
	case in.Data != nil:
		return keep(in)
	case !isInfrastructureProvisioned(in.Cluster):
		return waiting(clusterv1.WaitingForClusterInfrastructureReadyReason, "the infrastructure of Cluster "+in.Cluster.Name+" is not provisioned yet")
	case !IsAvailable(in.Machine.Spec.Version):
		return waiting(ReasonVersionNotAvailable, VersionMessage("Machine "+in.Machine.Name, in.Machine.Spec.Version))
	case IsControlPlane(in.Machine):
		return forControlPlane(in)
	default:
		return forWorker(in)
	}
}

func waiting(reason, message string) Outcome {
	return Outcome{Stage: Waiting, Reason: reason, Message: message}
}

func conflict(secret *corev1.Secret) Outcome {
	return waiting(ReasonSecretConflict, fmt.Sprintf(
		"Secret %s/%s exists and belongs to another object: delete it, then the bootstrap data is written", secret.Namespace, secret.Name))
}

// isOurs reports whether this provider has written the Secret for this LabConfig.
func isOurs(secret *corev1.Secret, config *api.LabConfig) bool {
	return metav1.IsControlledBy(secret, config) && secret.Type == clusterv1.ClusterSecretType && len(secret.Data[clustersecrets.KeyValue]) > 0
}

// IsControlPlane reports whether a Machine is one of a control plane.
func IsControlPlane(machine *clusterv1.Machine) bool {
	_, labelled := machine.Labels[clusterv1.MachineControlPlaneLabel]
	return labelled
}

// IsAvailable reports whether machines can run a version of Kubernetes. An empty version means any.
func IsAvailable(version string) bool {
	return version == "" || strings.TrimPrefix(version, "v") == strings.TrimPrefix(build.Version, "v")
}

// VersionMessage says that an object wants another version than machines can run.
func VersionMessage(object, version string) string {
	return fmt.Sprintf("%s wants Kubernetes %.60q, but machines only run %s: set this version in the Cluster or its topology", object, version, build.Version)
}

func isInfrastructureProvisioned(cluster *clusterv1.Cluster) bool {
	provisioned := cluster.Status.Initialization.InfrastructureProvisioned
	return provisioned != nil && *provisioned && cluster.Spec.ControlPlaneEndpoint.IsValid()
}

// keep reports existing data. A worker without Node still needs its token.
func keep(in Input) Outcome {
	kept := Outcome{Stage: Keeping}
	if IsControlPlane(in.Machine) || in.Machine.Status.NodeRef.IsDefined() || in.Machine.DeletionTimestamp != nil {
		return kept
	}
	if wanted := forWorker(in); wanted.Stage == Generating {
		kept.Token, kept.Keys = true, wanted.Keys
	}
	return kept
}

func forControlPlane(in Input) Outcome {
	ca, missing := readCA(in)
	if missing != nil {
		return *missing
	}
	if in.Accounts == nil {
		return awaitingSecret(in, clustersecrets.Accounts)
	}
	accounts, err := owner(in).ReadAccounts(in.Accounts)
	if err != nil {
		return waiting(ReasonCertificatesInvalid, err.Error())
	}
	return Outcome{Stage: Generating, Keys: Keys{CA: ca, Accounts: accounts}}
}

func forWorker(in Input) Outcome {
	if initialized := in.Cluster.Status.Initialization.ControlPlaneInitialized; initialized == nil || !*initialized {
		return waiting(clusterv1.WaitingForControlPlaneInitializedReason, "the control plane of Cluster "+in.Cluster.Name+" is not initialized yet")
	}
	ca, missing := readCA(in)
	if missing != nil {
		return *missing
	}
	if in.Kubeconfig == nil {
		return awaitingSecret(in, clustersecrets.Kubeconfig)
	}
	// An expired kubeconfig is renewed by its owner. Here only a foreign one is an error.
	if _, err := owner(in).RenewIn(in.Kubeconfig, ca, clustersecrets.URL(in.Cluster.Spec.ControlPlaneEndpoint), in.Now); err != nil {
		return waiting(ReasonKubeconfigInvalid, err.Error())
	}
	return Outcome{Stage: Generating, Token: true, Keys: Keys{CA: ca, Kubeconfig: in.Kubeconfig.Data[clustersecrets.KeyValue]}}
}

// readCA returns the CA, or what is missing for it.
func readCA(in Input) (pki.Authority, *Outcome) {
	if in.ControlPlane == nil || in.CA == nil {
		missing := awaitingSecret(in, clustersecrets.CA)
		return pki.Authority{}, &missing
	}
	ca, err := owner(in).ReadCA(in.CA)
	if err != nil {
		invalid := waiting(ReasonCertificatesInvalid, err.Error())
		return pki.Authority{}, &invalid
	}
	return ca, nil
}

func owner(in Input) clustersecrets.Owner {
	return clustersecrets.OwnerOf(in.ControlPlane, in.Cluster.Name)
}

func awaitingSecret(in Input, purpose clustersecrets.Purpose) Outcome {
	return waiting(clusterv1.WaitingForControlPlaneInitializedReason, fmt.Sprintf("Secret %s/%s of the control plane does not exist yet",
		in.Config.Namespace, clustersecrets.Name(in.Cluster.Name, purpose)))
}
