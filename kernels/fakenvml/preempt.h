// Two Go runtimes share the process when its program is a Go program too. Each
// takes the signals that it wants when it starts; the second one would keep
// SIGURG, by which the first preempts its goroutines, to itself.
void fakenvml_give_back_preemption(void);
