package logging

import (
	"bytes"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"github.com/rancher/lasso/pkg/log"
	"k8s.io/klog/v2"
)

// The libraries' loggers are package variables, so these tests run one after another.
func TestBridge(t *testing.T) {
	tests := map[string]struct {
		debug bool
		say   func()
		want  string
	}{
		"client-go: errors are logged": {
			say:  func() { klog.ErrorS(errors.New("refused"), "Listing") },
			want: "level=ERROR msg=Listing library=client-go err=refused\n",
		},
		"lasso: failing handler is an error": {
			say:  func() { log.Errorf("syncing %s", "a/b") },
			want: `level=ERROR msg="controller library reports an error" library=lasso error="syncing a/b"` + "\n",
		},
		"lasso: progress is not logged": {
			say: func() { log.Infof("Starting %s", "x"); log.Debugf("more") },
		},
		"lasso: progress is logged under debug": {
			debug: true,
			say:   func() { log.Infof("Starting %s", "x"); log.Debugf("more") },
			want:  "level=DEBUG msg=\"controller library message\" library=lasso detail=\"Starting x\"\nlevel=DEBUG msg=\"controller library message\" library=lasso detail=more\n",
		},
		"wrangler: warnings keep their fields": {
			say:  func() { logrus.WithField("kind", "Cluster").Warn("slow") },
			want: "level=WARN msg=\"controller library warns\" library=wrangler detail=slow kind=Cluster\n",
		},
		"wrangler: errors are errors": {
			say:  func() { logrus.Error("broken") },
			want: "level=ERROR msg=\"controller library reports an error\" library=wrangler detail=broken\n",
		},
		"wrangler: progress is not logged": {
			say: func() { logrus.Info("hello") },
		},
		"wrangler: progress is logged under debug": {
			debug: true,
			say:   func() { logrus.Debug("hello") },
			want:  "level=DEBUG msg=\"controller library message\" library=wrangler detail=hello\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			defer logrus.StandardLogger().ReplaceHooks(logrus.LevelHooks{})
			var out bytes.Buffer
			o := Options{Writer: &out, Debug: test.debug, Level: 1}
			Bridge(New(o), o)
			test.say()
			klog.Flush()
			if diff := cmp.Diff(test.want, withoutTime(out.String())); diff != "" {
				t.Errorf("the log differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNew_WritesDebugOnlyIfEnabled(t *testing.T) {
	for _, debug := range []bool{false, true} {
		var out bytes.Buffer
		New(Options{Writer: &out, Debug: debug}).Debug("looked")
		if got := out.Len() > 0; got != debug {
			t.Errorf("debug %v: wrote %q", debug, out.String())
		}
	}
}

func withoutTime(lines string) string {
	return regexp.MustCompile(`(?m)^time=\S+ `).ReplaceAllString(lines, "")
}

func TestFormats(t *testing.T) {
	tests := map[string]struct {
		json bool
		want string
	}{
		"text":                        {false, `level=INFO msg="bundle deployed" bundledeployment=ns/a duration=1.5s error="was \"x\""` + "\n"},
		"JSON with durations as text": {true, `{"level":"INFO","msg":"bundle deployed","bundledeployment":"ns/a","duration":"1.5s","error":"was \"x\""}` + "\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger := New(Options{Writer: &out, JSON: test.json})
			logger.Info("bundle deployed", "bundledeployment", "ns/a", "duration", 1500*time.Millisecond, "error", errors.New(`was "x"`))
			logger.Debug("not written")
			got := regexp.MustCompile(`time=\S+ |"time":"[^"]+",`).ReplaceAllString(out.String(), "")
			if got != test.want {
				t.Errorf("got %s want %s", got, test.want)
			}
		})
	}
}
