"""A function chooses who answers: a team of two, or another function."""

import asyncio
from typing import Literal

import coterie
from coterie import agent, flow


def classify(prompt: str) -> Literal["tech", "sales"]:
    return "tech" if "crash" in prompt else "sales"


def diagnose(prompt: str) -> str:
    return f"log of {prompt!r}"


def fix(diagnose: str) -> str:
    return f"fixed by {diagnose}"


def offer(prompt: str) -> str:
    return f"offer for {prompt!r}"


desk, diagnoses, fixes, sales = agent(classify), agent(diagnose), agent(fix), agent(offer)
tech = agent("tech", flow("techs", [diagnoses, fixes], [diagnoses >> fixes], result=fixes))
arrows = [(desk >> tech).when(desk.result == "tech"), (desk >> sales).when(desk.result == "sales")]
team = flow("support", [desk, tech, sales], arrows)

if __name__ == "__main__":
    print(asyncio.run(coterie.run(team, "it crashes")).result.text)
