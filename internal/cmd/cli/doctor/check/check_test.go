package check_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleet-hub/fleet/internal/cmd/cli/doctor/check"
	"github.com/fleet-hub/fleet/internal/cmd/cli/exit"
	"github.com/fleet-hub/fleet/internal/cmd/cli/output"
)

type facts struct{ broken []string }

func cluster(name string) check.Object {
	return check.Object{Kind: "Cluster", Group: "fleet.cattle.io", Namespace: "a", Name: name}
}

func checks() []check.Check[facts] {
	return []check.Check[facts]{
		{ID: "one", Judge: func(facts) []check.Row { return nil }},
		{ID: "two", Needs: []check.Source{"Secrets"}, Judge: func(f facts) (rows []check.Row) {
			for _, name := range f.broken {
				rows = check.Group(rows, "broken", check.Fail(cluster(name), "broken\x1b[31m", "kubectl delete "+name))
			}
			return rows
		}},
		{ID: "three", Judge: func(facts) []check.Row {
			return []check.Row{check.Ok(cluster("c"), "fine"), check.Warn(check.Object{}, "slow", "")}
		}},
	}
}

func TestRun_ReturnsARowForEachCheckAndGroupsObjects(t *testing.T) {
	rows := check.Run(checks(), facts{broken: []string{"a", "b", "c", "d", "e", "f"}}, nil)
	want := []check.Row{
		{ID: "one", Verdict: check.OK, Docs: "docs/troubleshooting.md#one"},
		{
			ID: "two", Verdict: check.Failed, Object: new(cluster("a")), Count: 6, Examples: []check.Object{cluster("b"), cluster("c"), cluster("d")},
			Cause: "broken [31m", Fix: "kubectl delete a", FixVaries: true, Docs: "docs/troubleshooting.md#two",
		},
		{ID: "three", Verdict: check.OK, Object: new(cluster("c")), Cause: "fine", Docs: "docs/troubleshooting.md#three"},
		{ID: "three", Verdict: check.Warning, Cause: "slow", Docs: "docs/troubleshooting.md#three"},
	}
	if diff := cmp.Diff(want, rows, cmpopts.IgnoreUnexported(check.Row{})); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestRun_SkipsChecksWhoseFactsAreMissing(t *testing.T) {
	missing := check.Missing{"Secrets": {Cause: "no right", Fix: "kubectl auth can-i"}}
	rows := check.Run(checks(), facts{broken: []string{"a"}}, missing)
	want := check.Row{ID: "two", Verdict: check.Skipped, Cause: "no right", Fix: "kubectl auth can-i", Docs: "docs/troubleshooting.md#two"}
	if diff := cmp.Diff(want, rows[1], cmpopts.IgnoreUnexported(check.Row{})); diff != "" || len(rows) != 4 {
		t.Errorf("%d rows, the second (-want +got):\n%s", len(rows), diff)
	}
}

func TestReport(t *testing.T) {
	report := check.NewReport(check.Run(checks(), facts{broken: []string{"a", "b"}}, nil))
	if want := (check.Summary{Checks: 3, OK: 1, Warnings: 1, Failed: 1}); report.Summary != want {
		t.Errorf("summary %+v, want %+v", report.Summary, want)
	}
	for name, test := range map[string]struct {
		format output.Format
		all    bool
		want   string
	}{
		"table": {output.Table, false, `VERDICT   CHECK   OBJECT           CAUSE
failed    two     Cluster a/a, b   broken [31m
warning   three   -                slow

CHECK      FIX
two, a/a   kubectl delete a

docs/troubleshooting.md#CHECK explains each check.
3 checks: 1 ok, 1 warning, 1 failed
`},
		"table with all rows": {output.Table, true, `VERDICT   CHECK   OBJECT           CAUSE
failed    two     Cluster a/a, b   broken [31m
warning   three   -                slow
ok        one     -                -
ok        three   Cluster a/c      fine

CHECK      FIX
two, a/a   kubectl delete a

docs/troubleshooting.md#CHECK explains each check.
3 checks: 1 ok, 1 warning, 1 failed
`},
		"names":               {output.Name, false, "cluster.fleet.cattle.io/a\n"},
		"names with all rows": {output.Name, true, "cluster.fleet.cattle.io/a\ncluster.fleet.cattle.io/c\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := report.Print(&out, test.format, test.all); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportOfDifferentCauses_NamesTheObjectOfCauseAndFix(t *testing.T) {
	var found []check.Row
	found = check.Group(found, "", check.Fail(cluster("a"), "silent since noon", "restart"))
	found = check.Group(found, "", check.Fail(cluster("b"), "silent since noon", "restart"))
	found = check.Group(found, "other", check.Fail(cluster("c"), "Secret c is missing", "create c"))
	found = check.Group(found, "other", check.Fail(cluster("d"), "Secret d is missing", "create d"))
	rows := check.Run([]check.Check[facts]{{ID: "one", Judge: func(facts) []check.Row { return found }}}, facts{}, nil)
	var out bytes.Buffer
	if err := check.NewReport(rows).Print(&out, output.Table, false); err != nil {
		t.Fatal(err)
	}
	const want = `VERDICT   CHECK   OBJECT           CAUSE
failed    one     Cluster a/a, b   silent since noon
failed    one     Cluster a/c, d   a/c: Secret c is missing

CHECK      FIX
one        restart
one, a/c   create c

docs/troubleshooting.md#CHECK explains each check.
`
	if got, _, _ := strings.Cut(out.String(), "1 check"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestThreshold(t *testing.T) {
	report := func(verdicts ...check.Verdict) check.Report {
		rows := []check.Row{}
		for i, verdict := range verdicts {
			rows = append(rows, check.Row{ID: fmt.Sprint(i), Verdict: verdict})
		}
		return check.NewReport(rows)
	}
	for name, test := range map[string]struct {
		threshold check.Verdict
		report    check.Report
		want      bool
	}{
		"failed, with a warning":        {check.Failed, report(check.OK, check.Warning), false},
		"failed, with a failed check":   {check.Failed, report(check.OK, check.Failed, check.Warning), true},
		"warning, with a warning":       {check.Warning, report(check.OK, check.Warning), true},
		"warning, with a failed check":  {check.Warning, report(check.Failed), true},
		"warning, with a skipped check": {check.Warning, report(check.Skipped, check.OK), false},
		"nothing was checked":           {check.Warning, report(), false},
	} {
		t.Run(name, func(t *testing.T) {
			var threshold check.Threshold
			if err := threshold.Set(string(test.threshold)); err != nil {
				t.Fatal(err)
			}
			if got := threshold.Exceeds(test.report); got != test.want {
				t.Errorf("exceeds: %v", got)
			}
		})
	}
	var threshold check.Threshold
	if err := threshold.Set("ok"); err == nil {
		t.Error("a threshold of ok was accepted")
	}
}

func TestExitCode_CountsChecksThatCouldNotBeDone(t *testing.T) {
	for name, test := range map[string]struct {
		codes []exit.Code
		want  exit.Code
	}{
		"right is missing":             {[]exit.Code{exit.Done}, exit.Done},
		"time was too short":           {[]exit.Code{exit.Done, exit.Timeout, exit.Done}, exit.Timeout},
		"request failed":               {[]exit.Code{exit.Failed, exit.Timeout}, exit.Failed},
		"request failed after timeout": {[]exit.Code{exit.Timeout, exit.Failed}, exit.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			rows, threshold := []check.Row{{ID: "fine", Verdict: check.OK}}, check.Threshold(check.Failed)
			for i, code := range test.codes {
				rows = append(rows, check.Row{ID: fmt.Sprint(i), Verdict: check.Skipped, Code: code})
			}
			if got := threshold.ExitCode(check.NewReport(rows)); got != test.want {
				t.Errorf("exit code %d, want %d", got, test.want)
			}
		})
	}
}

func TestGather_ExplainsWhatCouldNotBeRead(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	missingKind := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}}
	for name, test := range map[string]struct {
		err  error
		want check.Reason
	}{
		"forbidden":        {apierrors.NewForbidden(secrets, "", nil), check.Reason{Cause: "you do not have the right to list secrets in namespace a", Fix: "kubectl auth can-i list secrets -n a"}},
		"unknown resource": {missingKind, check.Reason{Cause: "the API server does not have the resource secrets"}},
		"slow request":     {context.DeadlineExceeded, check.Reason{Cause: "the API server did not answer in time to the request to list secrets in namespace a", Fix: "run the command again", Code: exit.Timeout}},
		"another error":    {errors.New("no\nroute"), check.Reason{Cause: "the request to list secrets in namespace a failed: no route", Fix: "run the command again", Code: exit.Failed}},
	} {
		t.Run(name, func(t *testing.T) {
			missing := check.Gather(t.Context(), []check.Reader{{
				Source: "Secrets", Right: check.Right{Verb: "list", Resource: "secrets", Namespace: "a"}, Read: func(context.Context) error { return test.err },
			}, {Source: "Nodes", Read: func(context.Context) error { return nil }}})
			if diff := cmp.Diff(check.Missing{"Secrets": test.want}, missing); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGather_ReadsSourcesAfterThoseThatTheyNeed(t *testing.T) {
	var order []check.Source
	read := func(source check.Source, err error, after ...check.Source) check.Reader {
		return check.Reader{Source: source, After: after, Right: check.Right{Verb: "list", Resource: string(source)}, Read: func(context.Context) error {
			order = append(order, source)
			return err
		}}
	}
	missing := check.Gather(t.Context(), []check.Reader{
		read("a", nil), read("b", nil, "a"), read("c", errors.New("broken"), "b"), read("d", nil, "a", "c"), read("e", nil, "d"),
	})
	want := check.Reason{Cause: "the request to list c failed: broken", Fix: "run the command again", Code: exit.Failed}
	if diff := cmp.Diff(check.Missing{"c": want, "d": want, "e": want}, missing); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]check.Source{"a", "b", "c"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestGather_EndsWithItsContext(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(context.Context) (context.Context, context.CancelFunc)
		want check.Reason
	}{
		"timeout": {
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			},
			check.Reason{Cause: "there was no time to list deployments.apps", Fix: "run the command again with a longer --timeout", Code: exit.Timeout},
		},
		"interrupted": {
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(time.Second, cancel)
				return ctx, cancel
			},
			check.Reason{Cause: "interrupted: the request to list deployments.apps was not answered", Fix: "run the command again", Code: exit.Failed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := test.end(t.Context())
				defer cancel()
				var readers []check.Reader
				for i := range 20 {
					readers = append(readers, check.Reader{
						Source: check.Source(fmt.Sprint(i)), Right: check.Right{Verb: "list", Group: "apps", Resource: "deployments"},
						Read: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
					})
				}
				missing := check.Gather(ctx, readers)
				if len(missing) != 20 || missing["19"] != test.want {
					t.Errorf("missing: %v", missing)
				}
			})
		})
	}
}
