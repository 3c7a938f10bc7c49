"""A first answer from an installed wheel without its extras: builds a bundle, serves it, searches.

    python3 .ci/try_wheel.py        writes to the current directory
"""

import random

import ifonly

chance = random.Random(1)
people = [(chance.randrange(18, 80), chance.randrange(20, 200) * 100) for _ in range(300)]
with open("loans.csv", "w") as file:
    file.write("age,income,decision\n")
    for age, income in people:
        file.write(f"{age},{income},{'yes' if income >= 9000 else 'no'}\n")
ifonly.build("loans.csv", "loans.bundle", accepted="decision", accept="yes", immutable=["age"])
with ifonly.serve("loans.bundle", servers=2) as deployment:
    found = deployment.explainer(threshold=1).generate_counterfactuals({"age": people[0][0], "income": 3000})
print(found)
