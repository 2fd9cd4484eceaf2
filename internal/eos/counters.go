package eos

// Counters is the name of the checker of what an application says it did.
const Counters = "counters"

// CheckCounters holds how many records an application says it has processed, in all its processes, to how many there were.
func CheckCounters(rep *Report, app string, said, were int64) {
	if said != were {
		rep.add(Counters, Wrong, "%s says that it has processed %d records, there were %d", app, said, were)
	}
}
