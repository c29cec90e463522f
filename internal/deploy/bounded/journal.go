package bounded

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/fleet-hub/fleet/internal/deploy/placement"
)

// journal has a file for each rendering that runs. A file that a process leaves tells the next process of the pod what
// may have ended it: a rendering that needs more memory than the agent may use, or that recurses without end. Files that
// cannot be written are missing, and nothing else depends on them.
type journal struct {
	dir string // empty for none
	// ended counts, for each rendering, the processes that ended while it ran.
	ended map[string]int
}

// entry is the content of a file of the journal.
type entry struct {
	Release    string `json:"release"`
	Deployment string `json:"deployment"`
	// Ended is the number of processes that ended while this was rendered.
	Ended int `json:"ended"`
	// Running means that the process that wrote the file has not finished the rendering.
	Running bool `json:"running"`
}

func (e entry) key() string {
	sum := sha256.Sum256([]byte(e.Release + "\x00" + e.Deployment))
	return hex.EncodeToString(sum[:16])
}

// openJournal reads what former processes have left in a directory. It creates the directory if it is missing.
func openJournal(dir string, log *slog.Logger) *journal {
	j := &journal{dir: dir, ended: map[string]int{}}
	if dir == "" {
		return j
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		log.Debug("renderings are not recorded", "error", err)
		return &journal{ended: map[string]int{}}
	}
	files, _ := os.ReadDir(dir) // on an error, those that were read
	for _, file := range files {
		var e entry
		content, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil || json.Unmarshal(content, &e) != nil || e.key() != file.Name() {
			_ = os.Remove(filepath.Join(dir, file.Name())) // was not written completely
			continue
		}
		if e.Running {
			e.Ended, e.Running = e.Ended+1, false
			j.write(e)
			log.Warn("an earlier process of this agent ended while it rendered a release", "release", e.Release, "failures", e.Ended)
		}
		j.ended[e.key()] = e.Ended
	}
	return j
}

// endedDuring returns how many processes ended during a rendering.
func (j *journal) endedDuring(release placement.Release, deployment string) int {
	return j.ended[entry{Release: release.String(), Deployment: deployment}.key()]
}

func (j *journal) begin(release placement.Release, deployment string) {
	e := entry{Release: release.String(), Deployment: deployment, Running: true}
	e.Ended = j.ended[e.key()]
	j.write(e)
}

// stop records that a rendering is stopped on purpose, together with the agent.
func (j *journal) stop(release placement.Release, deployment string) {
	e := entry{Release: release.String(), Deployment: deployment}
	if e.Ended = j.ended[e.key()]; e.Ended > 0 {
		j.write(e)
		return
	}
	j.end(release, deployment)
}

// end forgets a rendering that has ended.
func (j *journal) end(release placement.Release, deployment string) {
	key := entry{Release: release.String(), Deployment: deployment}.key()
	delete(j.ended, key)
	if j.dir != "" {
		_ = os.Remove(filepath.Join(j.dir, key))
	}
}

func (j *journal) write(e entry) {
	if content, err := json.Marshal(e); err == nil && j.dir != "" {
		_ = os.WriteFile(filepath.Join(j.dir, e.key()), content, 0o600)
	}
}
