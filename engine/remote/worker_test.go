package remote

func workerMain(mode string) int { return 0 }
