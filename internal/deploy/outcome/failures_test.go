package outcome

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	tests := map[string]struct {
		err  string
		want bool
	}{
		"timeout":                                     {"release x failed: timed out waiting for the condition", true},
		"data that does not validate":                 {"error validating data: x", true},
		"chart for another Kubernetes version":        {"chart requires kubeVersion: <1.20.0 which is incompatible with Kubernetes v1.36.3", true},
		"object of another owner":                     {`annotation validation error: missing key "meta.helm.sh/release-name"`, true},
		"rolled back":                                 {"release x failed, and has been rolled back due to atomic being set: y", true},
		"template is not YAML":                        {"YAML parse error on x/templates/a.yaml: z", true},
		"kustomization is not YAML":                   {"MalformedYAMLError: yaml: line 2", true},
		"a field that does not exist":                 {`strict decoding error: unknown field "spec.x"`, true},
		"immutable fields of a StatefulSet":           {"Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden", true},
		"immutable fields of a PersistentVolumeClaim": {"Forbidden: spec is immutable after creation except resources.requests", true},
		"API server is unreachable":                   {"dial tcp 10.0.0.1:6443: connect: connection refused", false},
		"an account without rights":                   {`configmaps is forbidden: User "x" cannot create resource`, false},
		"unknown kind":                                {`no matches for kind "X" in version "a/v1"`, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cause := errors.New(test.err)
			got := Classify(fmt.Errorf("wrapped: %w", cause))
			if IsFailure(got) != test.want {
				t.Errorf("recognised: %t", IsFailure(got))
			}
			if !errors.Is(got, cause) {
				t.Error("the cause is lost")
			}
		})
	}
	if Classify(nil) != nil {
		t.Error("no error became one")
	}
}

func TestLongMessage_IsTruncated(t *testing.T) {
	got := Message(errors.New(strings.Repeat("ä", messageLimit)))
	if len(got) > messageLimit+len("…") || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-8:])
	}
	if got := Message(errors.New("short")); got != "short" {
		t.Errorf("got %q", got)
	}
}

func TestRedaction(t *testing.T) {
	values := map[string]any{
		"password": "hunter2hunter2", "short": "abc", "flag": true, "none": nil, "port": int64(12345678),
		"list": []any{"in-a-list", map[string]any{"deep": "hunter2"}}, "amount": float64(87654321),
		"pem": "-----BEGIN KEY-----\n  MIIEvQIBADAN\r\nab\n-----END KEY-----\n", "quoted": "say \"hi\"<\tthere>", "whole": "one-line\n",
	}
	tests := map[string]struct{ in, want string }{
		"a value":                         {"got hunter2hunter2, want digits", "got <redacted>, want digits"},
		"the longer of two values":        {"hunter2hunter2 hunter2", "<redacted> <redacted>"},
		"a value in a list":               {"x in-a-list y", "x <redacted> y"},
		"a number":                        {"port 12345678", "port <redacted>"},
		"base64 of a value":               {"aHVudGVyMg==", "<redacted>"},
		"short value stays":               {"abc true nil", "abc true nil"},
		"lines of a text, indented":       {"    -----BEGIN KEY-----\n    MIIEvQIBADAN\n    ab\n", "    <redacted>\n    <redacted>\n    ab\n"},
		"lines of a text, escaped":        {`"-----BEGIN KEY-----\n  MIIEvQIBADAN\r\nab\n-----END KEY-----\n"`, `"<redacted>"`},
		"a text without its end":          {"one-line, two", "<redacted>, two"},
		"a text as Go quotes it":          {fmt.Sprintf("%q", "say \"hi\"<\tthere>"), `"<redacted>"`},
		"a text as JSON quotes it":        {`"say \"hi\"\u003c\tthere\u003e"`, `"<redacted>"`},
		"a number with a fraction's type": {"amount 87654321", "amount <redacted>"},
		"no value in the text":            {"fine", "fine"},
	}
	r := NewRedaction(values)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := r.Clean(test.in); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	t.Run("an error stays what it is", func(t *testing.T) {
		err := r.Wrap(Classify(errors.New("YAML parse error: hunter2hunter2")))
		if !IsFailure(err) || err.Error() != "YAML parse error: <redacted>" {
			t.Errorf("got %v", err)
		}
		if r.Wrap(nil) != nil {
			t.Error("no error became one")
		}
	})
	t.Run("nothing is taken out by no values", func(t *testing.T) {
		if got := NewRedaction(nil, map[string]any{"a": ""}).Clean("a b"); got != "a b" {
			t.Errorf("got %q", got)
		}
	})
}
