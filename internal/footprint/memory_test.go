package footprint

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	const status = "Name:\tfleetagent\nVmPeak:\t 1324076 kB\nVmHWM:\t   83864 kB\nVmRSS:\t   74620 kB\nRssAnon:\t   33456 kB\nRssFile:\t   41164 kB\n"
	process := Memory{Resident: 74620 << 10, Anonymous: 33456 << 10, Peak: 83864 << 10}
	container := process
	container.WorkingSet, container.ContainerPeak = 700, 2000
	withoutPeak, usageOnly := container, process
	withoutPeak.ContainerPeak = 0
	usageOnly.ContainerPeak = 2000
	tests := map[string]struct {
		files map[string]string
		want  Memory
		bad   bool
	}{
		"no container: only the process": {map[string]string{statusFile: status}, process, false},
		"cgroup v2, whose root is the container": {map[string]string{
			statusFile: status, cgroupsFile: "0::/kubepods/pod1/c1\n",
			"sys/fs/cgroup/memory.current": "1000\n", "sys/fs/cgroup/memory.peak": "2000\n",
			"sys/fs/cgroup/memory.stat": "anon 400\nactive_file 300\ninactive_file 300\n",
		}, container, false},
		"cgroup v2 of a kernel without peak": {map[string]string{
			statusFile: status, cgroupsFile: "0::/\n",
			"sys/fs/cgroup/memory.current": "1000\n", "sys/fs/cgroup/memory.stat": "inactive_file 300\n",
		}, withoutPeak, false},
		"cgroup v2 without statistics: no working set": {map[string]string{
			statusFile: status, cgroupsFile: "0::/\n",
			"sys/fs/cgroup/memory.current": "1000\n", "sys/fs/cgroup/memory.peak": "2000\n",
		}, usageOnly, false},
		"cgroup v1 below the root of the host": {map[string]string{
			statusFile: status, cgroupsFile: "3:cpu,cpuacct:/x\n4:memory:/pod/c1\n0::/\n",
			"sys/fs/cgroup/memory/pod/c1/memory.usage_in_bytes": "1000\n", "sys/fs/cgroup/memory/pod/c1/memory.max_usage_in_bytes": "2000\n",
			"sys/fs/cgroup/memory/pod/c1/memory.stat": "inactive_file 1\ntotal_inactive_file 300\n",
		}, container, false},
		"more inactive files than usage: no working set": {map[string]string{
			statusFile: status, cgroupsFile: "0::/\n",
			"sys/fs/cgroup/memory.current": "1000\n", "sys/fs/cgroup/memory.peak": "2000\n", "sys/fs/cgroup/memory.stat": "inactive_file 3000\n",
		}, usageOnly, false},
		"no status: error":                    {map[string]string{cgroupsFile: "0::/\n"}, Memory{}, true},
		"status with another format: error":   {map[string]string{statusFile: "VmRSS:\tmuch kB\n"}, Memory{}, true},
		"usage that is no number: error":      {map[string]string{statusFile: status, cgroupsFile: "0::/\n", "sys/fs/cgroup/memory.current": "max\n"}, process, true},
		"lines of /proc/self/cgroup unparsed": {map[string]string{statusFile: status, cgroupsFile: "0\n1:name=systemd:/\n"}, process, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range test.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			got, err := Read(root)
			if (err != nil) != test.bad {
				t.Errorf("got error %v", err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRead_OfThisProcess(t *testing.T) {
	m, err := Read(os.DirFS("/"))
	if err != nil {
		t.Fatal(err)
	}
	if m.Anonymous == 0 || m.Resident <= m.Anonymous || m.Peak < m.Anonymous {
		t.Errorf("got %+v", m)
	}
}
