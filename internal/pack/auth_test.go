package pack

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fleet-hub/fleet/internal/pack/charts"
)

func TestCredentials_AreThoseOfTheFolder(t *testing.T) {
	byPath := map[string]charts.Auth{
		"apps/web": {Username: "exact"}, "apps/*": {Username: "glob"}, "*/web": {Username: "first"}, "*": {Username: "one level"},
	}
	for folder, want := range map[string]string{"apps/web": "exact", "apps/db": "glob", "other/web": "first", "apps": "one level", "a/b/c": ""} {
		got, err := Credentials{ByPath: byPath, Default: charts.Auth{Username: "default"}}.of(folder)
		if err != nil || got.Username != want {
			t.Errorf("%s: %q, error %v, want %q", folder, got.Username, err, want)
		}
	}
	if got, err := (Credentials{Default: charts.Auth{Username: "default"}}).of("a"); err != nil || got.Username != "default" {
		t.Errorf("default: %v, error %v", got, err)
	}
	for folder, want := range map[string]string{"a": "own\nproxy", "elsewhere": "\nproxy"} {
		got, err := Credentials{ByPath: map[string]charts.Auth{"a": {CABundle: []byte("own")}}, ProxyCA: []byte("proxy")}.of(folder)
		if err != nil || string(got.CABundle) != want {
			t.Errorf("%s trusts %q, %v", folder, got.CABundle, err)
		}
	}
	if _, err := (Credentials{ByPath: map[string]charts.Auth{"[": {}}}).of("a"); err == nil || !strings.Contains(err.Error(), `path "["`) {
		t.Errorf("invalid glob: error %v", err)
	}
}

func TestCredentialsByPath_AreReadWithoutShowingThem(t *testing.T) {
	got, err := ParseByPath([]byte("a: {username: u, password: p, caBundle: Y2E=, sshPrivateKey: a2V5, sshKnownHosts: aG9zdHM=, insecureSkipVerify: true, basicHTTP: true}"))
	one := got["a"]
	if err != nil || one.Username != "u" || one.Password != "p" || string(one.CABundle) != "ca" || string(one.SSHPrivateKey) != "key" ||
		string(one.SSHKnownHosts) != "hosts" || !one.InsecureSkipVerify || !one.BasicHTTP {
		t.Errorf("%v, error %v", one, err)
	}
	for _, text := range []string{"a: {password: [hunter2]}", "hunter2", "a: {caBundle: hunter2!}", "a: b: hunter2"} {
		if _, err := ParseByPath([]byte(text)); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func TestCredentials_AreWithheldFromRepositoriesThatDoNotMatch(t *testing.T) {
	failure := errors.New("401")
	for name, test := range map[string]struct {
		expression, url string
		failure         error
		sent            bool
		want, hint      string
	}{
		"matches":            {`https://h/`, "https://h/x", nil, true, "", ""},
		"matches, but fails": {`https://h/`, "https://h/x", failure, true, "401", ""},
		"matches only in the middle": {
			`h/`, "https://h/x", failure, false, "401", `credentials were not sent to https://h/x, because --helm-repo-url-regex "h/" does not match its start`,
		},
		"alternatives are anchored together": {`ftp|/h`, "https://h/x", failure, false, "401", "does not match its start"},
		"no expression": {
			"", "https://h/x", failure, false, "401: helmRepoURLRegex is empty, so Helm credentials were not forwarded; set spec.helmRepoURLRegex to allow credential forwarding",
			"credentials were not sent to https://h/x, because there is no expression that allows it; add --helm-repo-url-regex",
		},
		"no expression: index":          {"", "https://h/x", &charts.ResolveError{Err: failure}, false, "401", "there is no expression"},
		"no expression, but no failure": {"", "https://h/x", nil, false, "", ""},
		"interrupted":                   {"", "https://h/x", context.Canceled, false, "context canceled", ""},
		"password in the address":       {"", "https://u:hunter2@h/x", failure, false, "401", "not sent to https://u:redacted@h/x"},
		"invalid expression":            {"(", "https://h/x", nil, false, "--helm-repo-url-regex: error parsing regexp", ""},
	} {
		t.Run(name, func(t *testing.T) {
			auth, sent := charts.Auth{Username: "u", Password: "p", SSHPrivateKey: []byte("k"), CABundle: []byte("ca"), BasicHTTP: true}, false
			err := Credentials{Expression: test.expression}.with(auth, test.url, func(auth charts.Auth) error {
				sent = auth.Username+auth.Password+string(auth.SSHPrivateKey) == "upk"
				if !sent && auth.Username+auth.Password+string(auth.SSHPrivateKey) != "" || string(auth.CABundle) != "ca" || !auth.BasicHTTP {
					t.Errorf("got %v", auth)
				}
				return test.failure
			})
			text := ""
			if err != nil {
				text = err.Error()
			}
			if sent != test.sent || !strings.HasPrefix(text, test.want) || (text == "") != (test.want == "") {
				t.Errorf("sent %v, error %q, want %v, %q", sent, text, test.sent, test.want)
			}
			if hint := Hint(err); !strings.Contains(hint, test.hint) || (hint == "") != (test.hint == "") || strings.Contains(hint, "hunter2") {
				t.Errorf("hint %q, want %q", hint, test.hint)
			}
		})
	}
	if err := (Credentials{}).with(charts.Auth{CABundle: []byte("ca")}, "https://h", func(charts.Auth) error { return failure }); Hint(err) != "" || !errors.Is(err, failure) {
		t.Errorf("there are no credentials: error %v, hint %q", err, Hint(err))
	}
}
