package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/await"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/cmd/cli/join/agentpod"
	"github.com/fleet-hub/fleet/internal/kube/foreign"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	"github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1/conditions"
)

const (
	// looksPerHint is how many looks at the cluster there are for each look at the hub's registrations.
	looksPerHint = 10
	// undoTimeout limits the removal of what was created.
	undoTimeout = 45 * time.Second
)

// created is what this run has created on the cluster.
type created struct {
	// namespace is the UID of the namespace, or nil.
	namespace *types.UID
	release   bool
	// before is the generation of the Deployment of an agent that was there, or zero.
	before int64
	// kept are the agent's own objects that existed before. The release deletes them when it is uninstalled.
	kept []ownObject
}

// install is phase 4. Helm is not interrupted, because it would go on in the background while its objects are removed.
func (j *joiner) install(ctx context.Context, f found, todo step) (note string, err error) {
	defer func() { err = j.onCluster(err) }()
	if todo != stepInstall {
		return "nothing to do", nil
	}
	j.changed = true
	uninterrupted := context.WithoutCancel(ctx)
	if !f.exists {
		namespaces := j.cluster.Core.CoreV1().Namespaces()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: j.namespace, Labels: map[string]string{"name": j.namespace}}}
		isOurs := func(found *corev1.Namespace) bool { return found.Labels["name"] == j.namespace }
		if j.created.namespace, err = access.Create(ctx, namespaces, namespace, isOurs); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", access.Explain("creating namespace "+j.namespace, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := access.Unmark(uninterrupted, j.cluster.Core, j.namespace); err != nil {
		return "", err
	}
	if j.created.kept, err = j.ownObjects(uninterrupted); err != nil {
		return "", err
	}
	// An agent whose namespace was deleted has left its role, which belongs to the release of its Bundle. So do all objects of an
	// agent that was imported, and that its hub has given up.
	takeOver := !f.exists || f.rejected
	created, err := j.helm.Install(uninterrupted, j.values, takeOver)
	j.created.release, j.created.before = created && !f.deployment, f.generation // an agent that was there stays
	if err != nil {
		return "", installProblem(j.namespace, err)
	}
	return fmt.Sprintf("Helm release %s/%s", j.namespace, names.Agent), nil
}

func installProblem(namespace string, err error) error {
	problem := foreign.Excerpt(err.Error(), 2048)
	failure := exit.Errorf(exit.Failed, "%s", problem)
	switch {
	case strings.Contains(problem, "is being terminated"):
		return failure.Because(conditions.ReasonNamespaceTerminating).With("kubectl wait --for=delete namespace/" + namespace)
	case strings.Contains(problem, "exceeded quota"), strings.Contains(problem, "violates PodSecurity"):
		return failure.Because(conditions.ReasonAgentPodRejected).With("kubectl describe namespace " + namespace)
	case strings.Contains(problem, "admission webhook"), strings.Contains(problem, "ValidatingAdmissionPolicy"):
		return failure.Because(conditions.ReasonAdmissionDenied).With("change the webhook or policy that the message names, and run the command again")
	case strings.Contains(problem, "invalid ownership metadata"):
		failure.Code = exit.Refused
		return failure.With("delete the object that the message names, if nothing needs it, and run the command again")
	case strings.Contains(problem, "values don't meet the specifications"):
		failure.Code = exit.Usage
		return failure.With("correct --values or --set: the message names the value")
	}
	return failure.With("run the command again: it continues")
}

// await is phase 5. It returns when the hub has recorded a heartbeat of the agent's present identity. If the agent got other
// values, its pods have been replaced then.
func (j *joiner) await(ctx context.Context) (Joined, error) {
	joined := Joined{Hub: j.text.URL, CA: j.text.Fingerprint(), Workspace: j.text.Workspace}
	progress := waiting{}
	err := await.Poll(ctx, j.timeout, func(ctx context.Context) (bool, error) {
		return j.hasJoined(ctx, &progress, &joined), nil
	})
	if err == nil && j.hubSide != nil {
		err = j.onHub(j.hubSide.await(ctx, joined, j.timeout))
	}
	if wait.Interrupted(err) && ctx.Err() == nil {
		return joined, j.late(context.WithoutCancel(ctx), progress)
	}
	if ctx.Err() != nil {
		return joined, ctx.Err()
	}
	return joined, err
}

// hasJoined is one look of await. An error does not end the wait: late reports the last one.
func (j *joiner) hasJoined(ctx context.Context, progress *waiting, joined *Joined) bool {
	f := found{namespace: j.namespace}
	if progress.err = f.readObjects(ctx, j.cluster.Core); progress.err != nil {
		return false
	}
	if progress.credential = f.identity != nil && sameHub(j.text, f.server, f.identity.ClusterNamespace); !progress.credential {
		j.hint(ctx, progress)
		return false
	}
	joined.Cluster = f.identity.ClusterName
	last, err := j.heartbeat(ctx, f)
	if hubclient.HasCode(err, http.StatusUnauthorized) { // an earlier identity, which the agent replaces
		progress.credential, progress.err = false, nil
		j.hint(ctx, progress)
		return false
	}
	if progress.err = err; err != nil || last.LastSeen.IsZero() {
		return false
	}
	joined.LastSeen = last.LastSeen.UTC().Format(time.RFC3339)
	progress.reported = true
	if j.created.before == 0 || f.generation == j.created.before || f.replaced {
		return true
	}
	j.hubSide.keep()
	return false
}

// waiting is how far phase 5 has come: the agent has a credential, and has reported. looks counts the looks at a cluster
// without a credential, and hinted means that the command which confirms the registration was printed.
type waiting struct {
	credential, reported, hinted bool
	looks                        int
	err                          error
}

// hint prints the command that confirms the registration, if the hub waits for it.
func (j *joiner) hint(ctx context.Context, progress *waiting) {
	if progress.looks++; progress.hinted || progress.looks%looksPerHint != 0 {
		return
	}
	if command := confirmation(j.hubSide.pending(ctx, j.text)); command != "" {
		progress.hinted = true
		fmt.Fprintf(j.streams.ErrOut, "the hub waits for the confirmation that this cluster replaces the agent of another one: %s\n", j.hubTarget().On(command))
	}
}

// diagnosisTimeout limits the requests for a diagnosis.
const diagnosisTimeout = 10 * time.Second

// late returns the error for a heartbeat that did not come in time, with the cause if it can be seen.
func (j *joiner) late(ctx context.Context, progress waiting) error {
	ctx, cancel := context.WithTimeout(ctx, diagnosisTimeout)
	defer cancel()
	failure, here := &exit.Error{Code: exit.Timeout}, j.flags.Target()
	logs := here.On(fmt.Sprintf("run join with --keep, then: kubectl logs -n %s deployment/%s", j.namespace, names.Agent))
	var rejected *exit.Error // the agent ends if the token was revoked meanwhile
	if _, err := checkHub(ctx, j.text, j.clock); !progress.credential && errors.As(err, &rejected) && rejected.Reason == conditions.ReasonTokenRejected {
		return j.onHub(rejected)
	}
	reason, message := j.podCause(ctx)
	switch {
	case progress.reported:
		failure.Problems = []error{fmt.Errorf("the cluster has joined, and no pod of the agent with its present settings was ready within %s: %s", j.timeout, cmp.Or(foreign.Excerpt(message, 1024), "the status of the pods shows no cause"))}
		return failure.Because(cmp.Or(reason, conditions.ReasonAgentPodFailing)).With("correct --image, --values or --set, and run the command again",
			here.On(fmt.Sprintf("kubectl describe pods -n %s -l app=%s", j.namespace, names.Agent)))
	case progress.credential:
		failure.Problems = []error{fmt.Errorf("the agent has its credential and sent no heartbeat within %s", j.timeout)}
		return lateBecause(failure, conditions.ReasonAgentNotReporting, progress.err).With(logs)
	case message != "":
		failure.Problems = []error{fmt.Errorf("the agent's pod does not run: %s", foreign.Excerpt(message, 1024))}
		return failure.Because(reason).With(here.On(fmt.Sprintf("run join with --keep, then: kubectl describe pods -n %s -l app=%s", j.namespace, names.Agent)))
	}
	failure.Problems = []error{fmt.Errorf("the agent runs, and the hub did not grant its registration within %s", j.timeout)}
	if pending := j.hubSide.pending(ctx, j.text); pending != nil {
		failure.Add(refusal(pending, j.keep))
		return j.onHub(failure)
	}
	return lateBecause(failure, conditions.ReasonAwaitingAgent, progress.err).With(
		j.hubTarget().On("on the hub: kubectl describe clusterregistrations.fleet.cattle.io -n "+j.text.Workspace),
		j.hubTarget().On("if its reason is TakeoverPending, run join again, and while it waits, on the hub: fleet confirm-takeover CLUSTER REQUEST -n "+j.text.Workspace), logs)
}

func lateBecause(failure *exit.Error, reason string, cause error) *exit.Error {
	if cause != nil {
		failure.Problems = append(failure.Problems, errors.New(foreign.Excerpt(cause.Error(), 1024)))
	}
	return failure.Because(reason)
}

// podCause returns why the agent's pod does not run, or empty texts.
func (j *joiner) podCause(ctx context.Context) (reason, message string) {
	deployment, err := j.cluster.Core.AppsV1().Deployments(j.namespace).Get(ctx, names.Agent, metav1.GetOptions{})
	if err != nil {
		return conditions.ReasonAgentNotReporting, "reading Deployment: " + err.Error()
	}
	pods, err := j.cluster.Core.CoreV1().Pods(j.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + names.Agent, Limit: maxAgents})
	if err != nil {
		return conditions.ReasonAgentNotReporting, "reading pods: " + err.Error()
	}
	return agentpod.Problem(deployment, pods.Items)
}

// undo removes what this run has created, and returns the error with what could not be removed.
func (j *joiner) undo(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(ctx, undoTimeout)
	defer cancel()
	var problems []error
	if j.created.release {
		problems = append(problems, j.uninstall(ctx))
	}
	if j.created.namespace != nil {
		problems = append(problems, j.removeNamespace(ctx))
	}
	problems = append(problems, j.hubSide.undo(ctx))
	failed := errors.Join(problems...)
	if failed != nil {
		fmt.Fprintf(j.streams.ErrOut, "warning: removing what was created: %s\n", foreign.Excerpt(failed.Error(), 1024))
		return cause
	}
	if j.created.release || j.created.namespace != nil {
		fmt.Fprintln(j.streams.ErrOut, "removed what was created; to keep it for a look, use --keep")
	}
	return cause
}

// uninstall removes the release, and what the agent has created besides it. What existed before stays, such as the recovery
// key of an earlier agent.
func (j *joiner) uninstall(ctx context.Context) error {
	if len(j.created.kept) == 0 {
		return j.helm.Uninstall()
	}
	problems := []error{j.helm.UninstallWithoutHooks()}
	now, err := j.ownObjects(ctx)
	problems = append(problems, err)
	for _, object := range now {
		if !slices.Contains(j.created.kept, object) {
			client := j.cluster.Metadata.Resource(object.resource).Namespace(object.namespace)
			err := client.Delete(ctx, object.name, *metav1.NewPreconditionDeleteOptions(string(object.uid)))
			problems = append(problems, access.IgnoreMissing("deleting "+object.String(), err))
		}
	}
	return errors.Join(problems...)
}

// removeNamespace deletes the namespace and waits until it is gone, so that the command can be run again at once.
func (j *joiner) removeNamespace(ctx context.Context) error {
	namespaces := j.cluster.Core.CoreV1().Namespaces()
	if err := access.Delete(ctx, namespaces, "namespace "+j.namespace, j.namespace, *j.created.namespace); err != nil {
		return err
	}
	err := await.Poll(ctx, undoTimeout, func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, j.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		return fmt.Errorf("namespace %s is still being deleted", j.namespace)
	}
	return nil
}
