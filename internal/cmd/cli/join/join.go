// Package join implements `fleet join`: how does this cluster become one of a hub's?
//
//	1 text ─► 2 hub (TLS, token) ─► 3 cluster (rights, agents, quota) ─► decide ─► 4 Helm ─► 5 wait ─► joined
//	                                                                                 └─ failed: remove what was created
//
// Nothing is written before phase 4. The bearer token of the text is sent only to a server with the CA of the text.
package join

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	helmvalues "helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/release"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleet-hub/fleet/internal/cmd/cli/access"
	"github.com/fleet-hub/fleet/internal/cmd/cli/agentrelease"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/hubclient"
	"github.com/fleet-hub/fleet/internal/cmd/cli/jointext"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
	"github.com/fleet-hub/fleet/internal/cmd/cli/token"
)

// Joined is the result.
type Joined struct {
	// Hub is its URL, and CA the SHA-256 of its CA.
	Hub string `json:"hub"`
	CA  string `json:"ca"`
	// Workspace and Cluster identify the Cluster on the hub.
	Workspace string `json:"workspace"`
	Cluster   string `json:"cluster"`
	// Already means that the cluster had joined before.
	Already bool `json:"already"`
	// LastSeen is the time of the last heartbeat in RFC 3339.
	LastSeen string `json:"lastSeen"`
}

// defaultTimeout limits phase 5.
const defaultTimeout = 2 * time.Minute

// options are the flags of the command.
type options struct {
	streams genericiooptions.IOStreams
	clock   func() time.Time
	flags   *access.Flags
	format  output.Format
	values  helmvalues.Options
	order   *token.Order

	file, hubContext, image string
	keep, dryRun            bool
	unregistered            bool
	timeout                 time.Duration
}

// New returns the command. clock returns the current time.
func New(streams genericiooptions.IOStreams, clock func() time.Time) *cobra.Command {
	o := &options{
		streams: streams, clock: clock, flags: access.NewFlags(), format: output.Table, order: token.NewOrder(streams.ErrOut), timeout: defaultTimeout,
	}
	command := &cobra.Command{
		Use:   "join",
		Short: "Join a cluster to a hub with the text of `fleet token create`",
		Long: `Join runs with access to the cluster that joins, as its administrator. It reads the text that "fleet token create" has
printed on the hub from standard input, checks the hub and the cluster, installs the agent with the chart that is part of
this program, and waits for its first heartbeat.

Compare the SHA-256 of the hub's CA that phase 2 prints with the one that "fleet token create" has printed.

If a phase fails, join removes what it has created, unless --keep is given. It is safe to run join again: it continues, and
on a cluster that has joined it does nothing and exits with code 0. If --image, --values or --set differ from the values
of the agent's Helm release, join upgrades the release with them, and waits until the agent's new pod is ready. The other
values stay.

With --hub-context, join does both sides: it creates the Cluster and the token on the hub, joins the cluster of --context,
and waits until the hub has seen it.`,
		Example: `  fleet join --context west <<'JOIN'
  fleet-join-v1:H4sIAAAA…
  JOIN
  fleet join --context west --file west.join
  fleet join --hub-context hub --context west --label env=prod`,
		Args:    cobra.NoArgs,
		PreRunE: o.checkFlags,
		RunE:    func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	o.bind(command)
	return command
}

func (o *options) bind(command *cobra.Command) {
	flags := command.Flags()
	o.flags.BindCluster(flags)
	o.format.Bind(flags)
	o.order.Bind(command, "with --hub-context, the name of --context")
	flags.StringVarP(&o.file, "file", "f", "", "file with the join text (default: standard input)")
	flags.StringVar(&o.hubContext, access.HubContext, "", "context of the hub: create the Cluster and the token there, instead of reading a text")
	flags.StringVar(&o.image, "image", "", "image of the agent, such as registry.example.com/fleet-agent:v1 (default: that of the join text); after the first heartbeat the hub's settings count")
	flags.StringSliceVar(&o.values.ValueFiles, "values", nil, "file with values of the chart fleet-agent; may be repeated")
	flags.StringArrayVar(&o.values.Values, "set", nil, "value of the chart fleet-agent, as key=value; may be repeated")
	flags.StringArrayVar(&o.values.StringValues, "set-string", nil, "value of the chart fleet-agent that is a string, as key=value; may be repeated")
	flags.BoolVar(&o.keep, "keep", false, "keep what was created if the cluster does not join")
	flags.BoolVar(&o.unregistered, "unregistered", false, "confirm that another hub has unregistered the cluster; needed if the agent's credential of that hub has expired")
	flags.BoolVar(&o.dryRun, "dry-run", false, "check everything, print the objects without secrets, and write nothing")
	flags.DurationVar(&o.timeout, "timeout", o.timeout, "time to wait for the first heartbeat")
}

// checkFlags refuses flags that would have no effect.
func (o *options) checkFlags(command *cobra.Command, _ []string) error {
	if o.hubContext != "" && o.file != "" {
		return exit.Errorf(exit.Usage, "--file has no effect with --hub-context, which reads no join text: leave out one of them").With("fleet join --help")
	}
	if o.hubContext == "" && slices.ContainsFunc([]string{"cluster", "label", "ttl", "namespace"}, command.Flags().Changed) {
		return exit.Errorf(exit.Usage, "--cluster, --label, --ttl and --namespace need --hub-context: without it, the join text names Cluster and token").With("fleet join --help")
	}
	return nil
}

// userValues returns the values of the user.
func (o *options) userValues() (map[string]any, error) {
	for _, file := range o.values.ValueFiles {
		if strings.TrimSpace(file) == "-" {
			return nil, exit.Errorf(exit.Usage, "--values - is not possible: standard input contains the join text").With("write the values to a file")
		}
	}
	values, err := o.values.MergeValues(getter.Providers{})
	if err != nil {
		return nil, exit.Errorf(exit.Usage, "reading the values: %w", err).With("fleet join --help")
	}
	failure := &exit.Error{Code: exit.Usage, Fixes: []string{"fleet join --help"}}
	for _, own := range agentrelease.OwnValues() {
		if _, set := values[own]; set {
			failure.Problems = append(failure.Problems, fmt.Errorf("value %s comes from the join text and cannot be set", own))
		}
	}
	if len(failure.Problems) > 0 {
		return nil, failure
	}
	if o.image != "" {
		values["internal"] = map[string]any{"image": o.image}
	}
	return values, nil
}

// run executes the phases.
func (o *options) run(ctx context.Context) (err error) {
	user, err := o.userValues()
	if err != nil {
		return err
	}
	cluster, err := o.flags.Open()
	if err != nil {
		return exit.Reach(err, o.flags.Target())
	}
	j := &joiner{options: o, cluster: cluster, user: user, phases: phases{out: o.streams.ErrOut, clock: o.clock}}
	defer func() {
		if err == nil || o.keep || o.dryRun {
			return
		}
		err = j.undo(context.WithoutCancel(ctx), err)
	}()
	joined, err := j.join(ctx)
	switch {
	case errors.Is(err, errPreviewed), err == nil && o.dryRun:
		return nil
	case j.changed:
		err = exit.AfterChange(err)
	}
	if err != nil {
		return redact(err, j.text.Token)
	}
	return o.print(joined)
}

func (o *options) print(joined Joined) error {
	text := "joined as Cluster"
	if joined.Already {
		text = "has joined already as Cluster"
	}
	return output.One(o.streams.Out, o.format, joined, "cluster.fleet.cattle.io/"+joined.Cluster,
		fmt.Sprintf("%s %s/%s of %s", text, joined.Workspace, joined.Cluster, joined.Hub))
}

// helm is the Helm of the cluster, see agentrelease.Helm.
type helm interface {
	Status() (release.Status, error)
	Values() (map[string]any, error)
	Install(ctx context.Context, values map[string]any, takeOver bool) (created bool, err error)
	Uninstall() error
	UninstallWithoutHooks() error
}

// joiner joins one cluster.
type joiner struct {
	*options
	cluster *access.Cluster
	phases  phases

	text      jointext.Text
	namespace string
	user      map[string]any // the values of the user
	values    map[string]any
	hub       hubReport
	helm      helm
	hubSide   *hubSide
	created   created
	changed   bool // the hub or the cluster was changed
}

// join executes the phases and returns the result.
func (j *joiner) join(ctx context.Context) (Joined, error) {
	if err := j.phases.run(ctx, 1, "read the join text", func(ctx context.Context) (string, error) { return j.readText(ctx) }); err != nil {
		return Joined{}, err
	}
	if err := j.phases.run(ctx, 2, "check the hub", func(ctx context.Context) (note string, err error) {
		j.hub, err = checkHub(ctx, j.text, j.clock)
		// The hub's clock counts. Offset is 0 if the hub did not tell its time.
		if err := cmp.Or(j.text.CheckExpiry(j.clock().Add(j.hub.clock.Offset)), err); err != nil {
			return "", j.onHub(err)
		}
		return fmt.Sprintf("%s, Kubernetes %s, %s, CA %s", j.text.URL, j.hub.version, j.hub.product, j.text.Fingerprint()), nil
	}); err != nil {
		return Joined{}, err
	}
	var f found
	var todo step
	if err := j.phases.run(ctx, 3, "check the cluster", func(ctx context.Context) (note string, err error) {
		f, todo, note, err = j.checkCluster(ctx)
		return note, err
	}); err != nil {
		return Joined{}, err
	}
	if j.dryRun {
		return Joined{}, j.preview(todo)
	}
	if err := j.phases.run(ctx, 4, "install the agent", func(ctx context.Context) (string, error) {
		if j.hubSide != nil { // only now it is certain that this cluster is that of the Cluster
			if err := token.AddLabels(ctx, j.hubSide.cluster, *j.order); err != nil {
				return "", j.onHub(err)
			}
		}
		return j.install(ctx, f, todo)
	}); err != nil {
		return Joined{}, err
	}
	var joined Joined
	err := j.phases.run(ctx, 5, "wait for the first heartbeat", func(ctx context.Context) (note string, err error) {
		joined, err = j.await(ctx)
		return fmt.Sprintf("Cluster %s/%s, last seen %s", output.Line(joined.Workspace), output.Line(joined.Cluster), joined.LastSeen), err
	})
	joined.Already = todo == stepNothing
	return joined, err
}

// readText is phase 1.
func (j *joiner) readText(ctx context.Context) (note string, err error) {
	switch {
	case j.hubContext != "":
		j.text, err = j.prepareHub(ctx)
	case j.file != "":
		j.text, err = readFile(j.file)
	default:
		j.text, err = readInput(ctx, j.streams.In)
	}
	if err != nil {
		return "", err
	}
	j.namespace = agentrelease.Namespace(j.text)
	if j.values, err = agentrelease.Values(j.text, j.user); err != nil {
		return "", err
	}
	if j.helm, err = agentrelease.New(j.cluster.Config, j.namespace); err != nil {
		return "", err
	}
	note = fmt.Sprintf("token %s/%s", j.text.Workspace, j.text.TokenName)
	if j.text.Expires != nil {
		note += ", expires " + j.text.Expires.Format(time.RFC3339)
	}
	return note, nil
}

// readInput reads standard input until the context ends: a terminal may never end.
func readInput(ctx context.Context, in io.Reader) (jointext.Text, error) {
	done := make(chan func() (jointext.Text, error), 1)
	go func() {
		text, err := jointext.Read(in)
		done <- func() (jointext.Text, error) { return text, err }
	}()
	select {
	case <-ctx.Done():
		return jointext.Text{}, ctx.Err()
	case result := <-done:
		return result()
	}
}

func readFile(path string) (jointext.Text, error) {
	file, err := os.Open(path)
	if err != nil {
		return jointext.Text{}, exit.Errorf(exit.Preflight, "reading the join text: %w", err).With("fleet join --help")
	}
	defer file.Close()
	return jointext.Read(file)
}

// checkCluster is phase 3.
func (j *joiner) checkCluster(ctx context.Context) (found, step, string, error) {
	if err := j.onCluster(checkRights(ctx, j.cluster.Core, j.namespace)); err != nil {
		return found{}, "", "", err
	}
	f, err := j.gather(ctx)
	if err != nil {
		return f, "", "", err
	}
	todo, err := decide(j.text, f)
	if err != nil {
		return f, "", "", err
	}
	if j.values, err = agentrelease.Values(j.text, agentrelease.WithEarlier(j.user, f.earlier)); err != nil {
		return f, "", "", err
	}
	if warning := clockProblem(j.hub.clock, hubclient.ClockAt(ctx, j.cluster.Config, j.clock)); warning != "" {
		j.order.Warn("%s", warning)
	}
	if todo == stepInstall && !f.deployment {
		if err := j.checkNewAgent(ctx, f); err != nil {
			return f, "", "", err
		}
	}
	return f, todo, notes(j.text, f, todo), nil
}

// checkNewAgent checks what matters for a cluster without an agent.
func (j *joiner) checkNewAgent(ctx context.Context, f found) error {
	if f.identity == nil {
		if err := j.hubSide.checkUnused(ctx, j.text.Workspace, j.order.Cluster); err != nil {
			return j.onHub(err)
		}
	}
	if f.exists {
		return j.onCluster(j.tryPod(ctx))
	}
	return nil
}

func notes(text jointext.Text, f found, todo step) string {
	switch {
	case todo == stepNothing:
		return "it has joined already"
	case todo == stepWait:
		return "the agent is installed already"
	case f.rejected && f.elsewhere(text):
		return "the agent moves here: its hub does not accept its identity any more"
	case f.rejected:
		return "the hub does not accept the agent's identity any more, so it registers again"
	case f.newCA, f.identity != nil && f.movesTo(text):
		return "the agent gets the hub's present address and CA"
	case f.changes && f.identity != nil:
		return "it has joined already, and the agent gets the given values"
	case f.release != "":
		return "an earlier installation is continued"
	}
	return "no agent"
}

// isScoped reports whether the values give the agent a scope of its own.
func (j *joiner) isScoped() bool {
	scope, _, _ := unstructured.NestedString(j.values, "fleetAgent", "scope")
	return scope != ""
}

// preview prints the objects that phase 4 would write, without the bearer token.
func (j *joiner) preview(todo step) error {
	if todo != stepInstall {
		return nil
	}
	values := maps.Clone(j.values)
	values["token"] = "REMOVED"
	return agentrelease.Print(j.streams.Out, j.format, j.namespace, values)
}

// phases prints the phases with their durations.
type phases struct {
	out   io.Writer
	clock func() time.Time
}

// count is the number of phases.
const count = 5

// run runs a phase and prints what it found out. An error names the phase.
func (p phases) run(ctx context.Context, number int, name string, do func(context.Context) (string, error)) error {
	start := p.clock()
	note, err := do(ctx)
	took := p.clock().Sub(start).Round(time.Millisecond)
	if ctx.Err() != nil { // whatever the interrupted request says
		err = ctx.Err()
	}
	if errors.Is(err, errPreviewed) {
		return err
	}
	if err != nil {
		fmt.Fprintf(p.out, "%d/%d %s: failed (%s)\n", number, count, name, took)
		return inPhase(number, name, err)
	}
	fmt.Fprintf(p.out, "%d/%d %s: %s (%s)\n", number, count, name, output.Line(note), took)
	return nil
}

// inPhase returns an error that names the phase.
func inPhase(number int, name string, err error) error {
	prefix := fmt.Sprintf("phase %d, %s", number, name)
	var failure *exit.Error
	if errors.As(err, &failure) {
		named := *failure
		named.Problems = nil
		for _, problem := range failure.Problems {
			named.Problems = append(named.Problems, fmt.Errorf("%s: %w", prefix, problem))
		}
		return &named
	}
	if errors.Is(err, context.Canceled) {
		return exit.Errorf(exit.Failed, "%s: interrupted", prefix).With("run the same command again: it continues")
	}
	return fmt.Errorf("%s: %w", prefix, err)
}

// redact removes a secret from the texts of an error. No error should contain it; texts of servers and of Helm might.
func redact(err error, secret string) error {
	var failure *exit.Error
	encoded := base64.StdEncoding.EncodeToString([]byte(secret)) // as in the data of a Secret
	if secret == "" || !strings.Contains(err.Error(), secret) && !strings.Contains(err.Error(), encoded) {
		return err
	}
	remove := strings.NewReplacer(secret, "REMOVED", encoded, "REMOVED")
	clean := func(text string) error { return errors.New(remove.Replace(text)) }
	if !errors.As(err, &failure) {
		return clean(err.Error())
	}
	redacted := *failure
	redacted.Problems = nil
	for _, problem := range failure.Problems {
		redacted.Problems = append(redacted.Problems, clean(problem.Error()))
	}
	return &redacted
}
