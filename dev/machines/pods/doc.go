// Package pods runs the pods of a lab machine's cluster, so that Fleet's agent runs in a cluster that has a
// control plane, but no container runtime.
//
//	bootstrap data of a control-plane machine
//	  └─ service: podrunner --kubeconfig=… --dir=… --log-dir=… --binary=fleetagent=fleetagent
//	       ├─ pods without a node: Running and Ready at once (dev/plane/podrunner)
//	       │    └─ command fleetagent: a local process, in the machine's process group
//	       └─ pods bound to a node: ignored, the hollow node of package node pretends to run them
//
// Deployments, StatefulSets and DaemonSets get pods without a node, because lab clusters have no scheduler. The
// containerID of a container that runs as a process is process://PID.
//
// The processes end with the podrunner, so they end with the machine: when its process group is killed, when the service
// stops, and on Linux also when only the podrunner is killed. The podrunner then kills them, as a power failure does. A
// restarted podrunner starts them again.
package pods
